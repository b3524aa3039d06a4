"""Settings of stored data: durability, segments, limits."""

from __future__ import annotations

from typing import Annotated, Final

from iggy_broker import config_values as values
from iggy_broker.config_keys import Section, Setting
from iggy_broker.config_values import SECOND_US, UNLIMITED, Secret

SYNC_BYTES_DEFAULT: Final = 1 << 20

_COUNT_MAX: Final = (1 << 32) - 1


ALL_INDEXES: Final = "all"
INDEXES: Final = (ALL_INDEXES, "open_segment", "none")


def flag(doc: str, *aliases: str) -> Setting:
    """A setting that is on or off."""
    return Setting(values.boolean, doc, aliases=aliases)


class MessageSaver(Section, frozen=True):
    """The background sync of partitions that nobody waits for."""

    enabled: Annotated[
        bool,
        flag("Run it. Off: only the thresholds and a clean stop sync.", "message_saver.enabled"),
    ] = True
    enforce_fsync: Annotated[
        bool,
        flag(
            "Make each pass an fsync; off leaves the moment to the operating system.",
            "message_saver.enforce_fsync",
        ),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "Pause between passes, and so the most that a power cut takes from a topic with "
            "durability `replicated`.",
            name="interval",
            aliases=("message_saver.interval",),
            show=values.show_duration,
        ),
    ] = 30 * SECOND_US


class PartitionDefaults(Section, frozen=True):
    """Durability of partitions; each is the default of the topic option with the same name."""

    enforce_fsync: Annotated[
        bool,
        flag(
            "Sync before the answer whenever messages_required_to_save or its size is reached, for "
            "every topic, and every stored offset. Off: what is acknowledged survives the process, "
            "not always the power."
        ),
    ] = False
    messages_required_to_save: Annotated[
        int,
        Setting(
            values.whole(1, _COUNT_MAX),
            "With enforce_fsync: the request that leaves so many messages unsynced waits for a "
            "sync; 1 means all. At most one message less is lost to a power cut. A topic that has "
            "its own number begins to sync then, also without it, and no request waits.",
        ),
    ] = 1024
    size_of_messages_required_to_save_bytes: Annotated[
        int,
        Setting(
            values.size,
            "With enforce_fsync: the request that leaves so many bytes unsynced waits for a sync; "
            "0 is the default.",
            name="size_of_messages_required_to_save",
            show=values.show_size,
        ),
    ] = SYNC_BYTES_DEFAULT
    validate_checksum: Annotated[
        bool,
        flag("Check every batch that a poll reads from disk: rot is an error, never wrong bytes."),
    ] = True
    message_saver: MessageSaver = MessageSaver()


def cached_indexes(value: object) -> str:
    """A parser: the words, or whether at all."""
    if isinstance(value, bool):
        value = str(value)
    word = values.choice(*INDEXES, "true", "false")(value)
    return {"true": ALL_INDEXES, "false": "none"}.get(word, word)


class SegmentDefaults(Section, frozen=True):
    """The files of a partition."""

    size_bytes: Annotated[
        int,
        Setting(
            values.size,
            "A segment file is sealed when it reaches this. Default of the topic option "
            "segment_size; whole segments are what can be deleted.",
            name="size",
            show=values.show_size,
        ),
    ] = 1 << 30
    message_expiry_us: Annotated[
        int,
        Setting(
            values.expiry,
            "Age at which messages go, a sealed segment at a time: default of the topic option "
            "message_expiry.",
            name="message_expiry",
            aliases=("system.topic.message_expiry",),
            show=values.show_duration,
        ),
    ] = UNLIMITED
    max_age_us: Annotated[
        int,
        Setting(
            values.expiry,
            "Seal a segment when its first message is so old, however small it is. Without it the "
            "last messages of an idle topic never expire: only sealed segments go.",
            name="max_age",
            show=values.show_duration,
        ),
    ] = UNLIMITED

    cache_indexes: Annotated[
        str,
        Setting(
            cached_indexes,
            "Indexes of sealed segments stay in memory once they were used, up to 32 MiB a shard "
            "(all), or are read anew by who needs them (open_segment, none). What is read is the "
            "same; the segment that is written has its own in any case.",
        ),
    ] = ALL_INDEXES
    validate_checksum: Annotated[
        bool,
        flag(
            "Check every batch of every segment at a start, before clients are served; what is "
            "damaged is told and not served. A start then takes as long as reading all data."
        ),
    ] = False


class Encryption(Section, frozen=True):
    """AES-256-GCM of messages at rest."""

    enabled: Annotated[
        bool,
        flag(
            "Encrypt messages as they are written, with `key`. What is in the clear stays so, and "
            "is read. Off: what is encrypted is still read with the keys."
        ),
    ] = False
    key: Annotated[
        Secret,
        Setting(
            values.encryption_key,
            "Base64 of 32 bytes, as `openssl rand -base64 32` gives. Whoever loses it loses the "
            "messages. Variables are seen by all that run as the broker's user: prefer key_file.",
            secret=True,
        ),
    ] = Secret()
    key_file: Annotated[
        str, Setting(values.text, "File with the key, such as a mounted Secret. Read at the start.")
    ] = ""
    old_keys: Annotated[
        Secret,
        Setting(
            values.encryption_keys,
            "Keys that were used before, with commas between: they read and do not encrypt.",
            secret=True,
        ),
    ] = Secret()
    old_key_files: Annotated[
        str,
        Setting(values.text, "Files with such keys, one a line; commas between their names."),
    ] = ""

    @property
    def problem(self) -> str:
        """What is wrong with these settings together, and the fix; empty if nothing."""
        if self.key and self.key_file:
            return "system.encryption.key and system.encryption.key_file are both set: keep one"
        if self.enabled and not (self.key or self.key_file):
            fix = "set it, or system.encryption.key_file"
            return f"system.encryption.key is empty and system.encryption.enabled is true: {fix}"
        return ""


class Recovery(Section, frozen=True):
    """What a start does about metadata that are not there."""

    recreate_missing_state: Annotated[
        bool,
        flag(
            "Make lost or damaged metadata anew from the folders of the data: what cannot be read "
            "is moved aside, folders without metadata are adopted. Users are lost. Off: such "
            "folders are told and left alone, and damaged metadata stop the start."
        ),
    ] = False


class TopicDefaults(Section, frozen=True):
    """Limits of a topic."""

    max_size_bytes: Annotated[
        int,
        Setting(
            values.topic_size,
            "Size above which the oldest sealed segments of a topic go, of whichever partition: "
            "default of the topic option max_topic_size.",
            name="max_size",
            aliases=("topic.max_topic_size", "system.topic.max_topic_size"),
            show=values.show_size,
        ),
    ] = UNLIMITED
    delete_oldest_segments: Annotated[
        bool,
        flag("Remove them. Off: a topic may grow beyond its size."),
    ] = True
