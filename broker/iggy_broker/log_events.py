"""Every event that the broker logs, and what it means: the words that alerts and searches rely on.

A line may be provoked by whoever can reach a port, or by one client again and again: such events
are `limited`, see `logs.Limiter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of log line."""

    meaning: str
    limited: bool = False


EVENTS: Final[dict[str, Event]] = {
    # Life of the broker.
    "starting": Event("The broker starts: versions, whether the kernel is compiled, settings."),
    "setting_warning": Event("A setting is unknown, or not used by this version."),
    "encryption": Event("Messages are encrypted as they are written; `key_id`, and how many keys."),
    "credentials_ignored": Event("Root credentials that were changed after the first start."),
    "cannot_start": Event("The broker ends at once; the message says why and the way out."),
    "directory_emptied": Event("All data were removed before the start: `--fresh`."),
    "ready": Event("All shards accept clients."),
    "recovered": Event("A shard has opened its partitions: how many, what was cut, how long."),
    "stopping": Event("A stop was asked for."),
    "stopped": Event("The broker has ended, with its exit code."),
    "shard_ended": Event("A shard ended by itself: all stop."),
    "shard_killed": Event("A shard did not stop in time and was killed."),
    "shard_failed": Event("A shard stops for what cannot go on: a failed sync, a bug."),
    "crashed": Event("An exception that nobody caught."),
    "clock_jumped": Event("The wall clock was set."),
    "runtime_file_missing": Event("The file with the ports as bound could not be written yet."),
    "certificate_loaded": Event(
        "A listener uses this certificate from now on: fingerprint, end, whether it is our own."
    ),
    "certificate_refused": Event(
        "New files of a certificate cannot be used; the one before stays.", limited=True
    ),
    "keys_not_fetched": Event(
        "The keys of an issuer whose tokens are taken cannot be had from `url`.", limited=True
    ),
    "quic_failed": Event(
        "The library of QUIC failed on what a client sent; that connection was closed.",
        limited=True,
    ),
    # What recovery decides: `folder` is the partition's.
    "tail_cut": Event("A torn or damaged tail was cut off; the bytes are kept in `kept_path`."),
    "segment_set_aside": Event("A segment behind a hole or damage is out of the log, and kept."),
    "index_rebuilt": Event("An index did not fit its log and was made anew."),
    "damaged": Event("Stored batches are damaged or missing; what is sound is served."),
    "fenced": Event("Files of the log are missing: the partition is not served."),
    "foreign_file": Event("A file that is not ours is left alone."),
    "folder_missing": Event("A partition's folder is gone: it starts empty."),
    "folder_set_aside": Event("A folder of another partition of that number was moved away."),
    "purge_finished": Event("A purge that a stop interrupted was carried out."),
    "life_noted": Event("A folder without a readable note of its owner got one."),
    "marker_disbelieved": Event("The files are not those of the clean stop: they were checked."),
    "partition_waits": Event("A partition waits for room on the disk before it can be opened."),
    "partition_opened": Event("A partition that waited is open."),
    "metadata_moved": Event("Metadata that cannot be read were moved aside, and are made anew."),
    "metadata_recreated": Event("Metadata were made anew from the folders of the data."),
    "folder_adopted": Event("A partition's folder that was missing in the metadata is in them."),
    "folder_unknown": Event("A partition's folder is in no metadata, and is left alone."),
    "journal_cut": Event("A torn tail of the metadata journal was cut off, and kept."),
    "group_offset_removed": Event("The stored offset of a deleted group was removed."),
    "offset_file_foreign": Event("Something else lies among the stored offsets: left alone."),
    "offset_file_damaged": Event("A stored offset is damaged: none is stored."),
    "offset_file_unreadable": Event(
        "Stored offsets cannot be read: who asks for them is refused.", limited=True
    ),
    "offset_file_ignored": Event("More stored offsets than a partition may have: ignored."),
    "offset_drawn_back": Event("A stored offset was ahead of the data and was drawn back."),
    # What the disk refuses or has lost.
    "sends_refused": Event(
        "The disk has no room, or no descriptor: sends are refused.", limited=True
    ),
    "changes_refused": Event("The metadata journal cannot be written: changes fail.", limited=True),
    "snapshot_postponed": Event(
        "No snapshot of the metadata now; the journal goes on.", limited=True
    ),
    "damage_found": Event(
        "A read met stored bytes that are wrong; they are not served.", limited=True
    ),
    "not_decrypted": Event(
        "A read met messages that it has no key for, or that were changed: it is refused. "
        "`folder`, `offset`, `key_id`.",
        limited=True,
    ),
    "segment_damaged": Event(
        "A check of all data found damage: `folder`, `offset`, `position`; nothing of the segment "
        "is served from there on, up to `next_offset`."
    ),
    "offset_not_written": Event("A lower stored offset cannot be written."),
    "group_offset_kept": Event(
        "The offset of a deleted group stays until the next start.", limited=True
    ),
    "folder_kept": Event(
        "The files of a deleted partition stay until the next start.", limited=True
    ),
    "marker_not_written": Event("No mark of a clean stop: the next start reads more."),
    "trim_not_noted": Event("A restart will not know which segments were to go.", limited=True),
    "retention_removed": Event("Segments of a partition were removed for age or size.", True),
    "retention_waits": Event(
        "Segments are due to go and stay: a stored offset has not passed them.", limited=True
    ),
    "archive_failed": Event(
        "Something was not archived; it is tried again, and stays until then.", limited=True
    ),
    "archive_taken": Event(
        "The archive is that of another data directory: nothing is copied to it.", limited=True
    ),
    "archive_missing": Event(
        "An empty place is where the archive was: nothing is copied, older messages wait.",
        limited=True,
    ),
    "archive_works": Event("What had failed is copied again.", limited=True),
    "segment_archived": Event("A sealed segment is in the archive, read back.", limited=True),
    "segment_vanished": Event("A segment was gone before it was copied (level debug).", True),
    "archive_unreadable": Event(
        "Older messages cannot be read from the archive; polls are refused for now.", limited=True
    ),
    "archive_readable": Event("Older messages are read from the archive again."),
    "archive_damaged": Event(
        "Something in the archive is damaged or missing: `folder`, `offset`.", limited=True
    ),
    "storage": Event("Something else that storage met.", limited=True),
    # `iggy-broker backup`.
    "backup_made": Event("A backup is whole: how many partitions, messages and bytes."),
    "backup_checked": Event("A backup was read again; what is wrong stands in lines before."),
    "backup_damaged": Event("Something in a backup, or in what was copied, is damaged."),
    "backup_failed": Event("A backup was not made, or cannot be read; the message says why."),
    # `iggy-broker restore`.
    "restored": Event("A data directory is whole: how many partitions and messages, how long."),
    "restore_elsewhere": Event("Older messages are in an archive that the settings do not name."),
    "restore_left_out": Event("Partitions younger than the archive's metadata were left alone."),
    "restore_problem": Event("Something could not be restored as it was; restore.json names it."),
    "restore_not_needed": Event("The data directory has data: `--if-empty` did nothing."),
    "restore_failed": Event("Nothing was restored; the message says why."),
    # Clients.
    "login_refused": Event(
        "Wrong credentials, a wrong version, or a login that is none.", limited=True
    ),
    "evicted": Event("A client was sent away for a request that it must not make.", limited=True),
    "member_sent_away": Event("A silent member of a group lost its membership.", limited=True),
    "session_revoked": Event(
        "A session ended because its user was deleted or is inactive.", limited=True
    ),
    "connection_refused": Event("Too many connections, or no descriptor left.", limited=True),
    "connection_closed": Event(
        "A client that stalls, or sends what is no frame, was closed.", True
    ),
    "http_failed": Event("A bug: an HTTP request was answered 500.", limited=True),
    "user_changed": Event("A user, a password or permissions were changed.", limited=True),
    "tokens_removed": Event("Expired tokens were removed."),
    "refused": Event("A request was refused (level debug)."),
    # The log itself.
    "suppressed": Event("So many lines of a limited event were not written."),
    "python_warning": Event("A warning of Python or a library."),
    "library": Event("A line of a library."),
}
