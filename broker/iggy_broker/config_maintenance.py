"""Settings of what is done to stored data in the background: removal and archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from iggy_broker import config_values as values
from iggy_broker.config_data import flag
from iggy_broker.config_keys import Section, Setting
from iggy_broker.config_values import SECOND_US, Secret

DAY_US: Final = 24 * 3600 * SECOND_US
DISK: Final = "disk"
S3: Final = "s3"
TREE: Final = "tree"
ADDRESSING: Final = ("auto", "path", "virtual")
_ARCHIVER: Final = "data_maintenance.archiver"


class Messages(Section, frozen=True):
    """The removal of old messages."""

    cleaner_enabled: Annotated[
        bool,
        flag("Remove segments by age and size. Off: nothing goes but what somebody deletes."),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "Pause between two looks. A changed expiry or size counts from the next one.",
            name="interval",
            show=values.show_duration,
        ),
    ] = 60 * SECOND_US
    consumer_barrier: Annotated[
        bool,
        flag(
            "Keep what a consumer or group with a stored offset has not read, whatever its age. "
            "Off: who is late loses messages."
        ),
    ] = True


class Scrub(Section, frozen=True):
    """The background check of stored data: rot is found before somebody needs the bytes."""

    enabled: Annotated[
        bool,
        flag("Read everything again and again, and tell what is damaged."),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "From the start of one pass to the next. A pass that takes longer is followed by the "
            "next at once.",
            name="interval",
            show=values.show_duration,
        ),
    ] = 7 * DAY_US
    rate_bytes: Annotated[
        int,
        Setting(
            values.positive_size,
            "How much a shard reads in a second, at most; 1 TiB then takes three days.",
            name="rate",
            show=values.show_size,
        ),
    ] = 4 << 20


def _layout(value: object) -> str:
    """A parser of the name of a layout; there is one."""
    if isinstance(value, str) and value.strip().lower() == TREE:
        return TREE
    raise ValueError("write tree: from another layout nobody here could restore or read")


class ArchiverDisk(Section, frozen=True):
    """An archive in a folder."""

    path: Annotated[
        str,
        Setting(
            values.text,
            "The folder, best on another volume than the data: an archive on the same one is lost "
            "with it. Empty: archive in the data directory.",
            aliases=(f"{_ARCHIVER}.path", "archiver.disk.path"),
        ),
    ] = ""


class ArchiverS3(Section, frozen=True):
    """An archive in a bucket."""

    bucket: Annotated[
        str,
        Setting(
            values.text, "Name of the bucket, which must exist.", aliases=("archiver.s3.bucket",)
        ),
    ] = ""
    key_prefix: Annotated[
        str,
        Setting(
            values.text,
            "What all keys begin with; a slash is added. Each broker needs one of its own.",
            aliases=("archiver.s3.key_prefix",),
        ),
    ] = ""
    region: Annotated[
        str,
        Setting(
            values.text,
            "Region of the bucket; empty: from the environment, or us-east-1 with an endpoint.",
            aliases=("archiver.s3.region",),
        ),
    ] = ""
    endpoint: Annotated[
        str,
        Setting(
            values.web_address,
            "http:// or https:// address of a store that is not Amazon's.",
            aliases=("archiver.s3.endpoint",),
        ),
    ] = ""
    addressing: Annotated[
        str,
        Setting(
            values.choice(*ADDRESSING),
            "Where the bucket's name stands: path, in the path of the address; virtual, in front "
            "of its host. auto: path with an endpoint, else virtual.",
        ),
    ] = "auto"
    tmp_upload_dir: Annotated[
        str,
        Setting(
            values.text,
            "Folder on this machine where an upload is copied first and sent from. A start empties "
            "it of copies. Empty: segments are sent from where they are, which takes no room.",
            aliases=("archiver.s3.tmp_upload_dir",),
        ),
    ] = ""
    access_key_id: Annotated[
        Secret,
        Setting(
            values.secret,
            "With the secret key: the login. Empty: AWS_* variables, a web identity or the "
            "machine's role.",
            aliases=(f"{_ARCHIVER}.s3.key_id", "archiver.s3.access_key_id", "archiver.s3.key_id"),
            secret=True,
        ),
    ] = Secret()
    secret_access_key: Annotated[
        Secret,
        Setting(
            values.secret,
            "The other half of the login.",
            aliases=(
                f"{_ARCHIVER}.s3.key_secret",
                "archiver.s3.secret_access_key",
                "archiver.s3.key_secret",
            ),
            secret=True,
        ),
    ] = Secret()


class ArchiverRead(Section, frozen=True):
    """Polls of messages that only the archive has."""

    enabled: Annotated[
        bool,
        flag("Give them. Off: a poll below the oldest message on the disk begins there."),
    ] = True
    cache_bytes: Annotated[
        int,
        Setting(
            values.positive_size,
            "Memory of each shard for blocks of about 4 MiB that were read, or are on their way.",
            name="cache",
            show=values.show_size,
        ),
    ] = 64 << 20


class Archiver(Section, frozen=True):
    """Copies of segments in another place."""

    enabled: Annotated[bool, flag("Make copies.", "archiver.enabled")] = False
    kind: Annotated[
        str,
        Setting(
            values.choice(DISK, S3),
            "Where: disk is a folder, s3 a bucket.",
            aliases=("archiver.kind",),
        ),
    ] = DISK
    layout: Annotated[
        str,
        Setting(
            _layout,
            "How objects are named: tree, much as files of a data directory; `iggy-broker restore "
            "--from` makes one of it. The flat layout of older versions of Iggy is refused.",
        ),
    ] = TREE
    archive_expired: Annotated[
        bool,
        flag(
            "Remove a segment only when it has been copied and the copy was read back. Off: sealed "
            "segments are copied, and what is due goes, copied or not.",
            "archiver.archive_expired",
            "system.segment.archive_expired",
            "segment.archive_expired",
        ),
    ] = True
    continuous: Annotated[
        bool,
        flag(
            "Copy sealed segments at once, and what is written now every interval. Off: with "
            "archive_expired, a segment is copied when it is due to go."
        ),
    ] = False
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "From the begin of one copy to the next; with continuous this and the time of one copy "
            "is the most that is lost with the volume.",
            name="interval",
            aliases=("archiver.interval",),
            show=values.show_duration,
        ),
    ] = 5 * SECOND_US
    abandoned: Annotated[
        str,
        Setting(
            values.text,
            "Id of the archive that this data directory has had and that is given up, as the log "
            "names it. Without it the broker waits for that archive where it finds an empty place.",
        ),
    ] = ""
    disk: ArchiverDisk = ArchiverDisk()
    s3: ArchiverS3 = ArchiverS3()
    read: ArchiverRead = ArchiverRead()

    @property
    def problem(self) -> str:
        """What is wrong with these settings together, and the fix; empty if nothing."""
        if not self.enabled or self.kind != S3:
            return ""
        if not self.s3.bucket:
            return f"{_ARCHIVER}.s3.bucket is empty: name the bucket, or set kind to disk"
        if bool(self.s3.access_key_id) != bool(self.s3.secret_access_key):
            missing = "secret_access_key" if self.s3.access_key_id else "access_key_id"
            return f"{_ARCHIVER}.s3.{missing} is empty, its partner is not: set both or neither"
        return ""

    def folder(self, data: Path) -> Path:
        """Of the archive on a disk, for this data directory."""
        return Path(self.disk.path).expanduser() if self.disk.path else data / "archive"


class StateCopies(Section, frozen=True):
    """Copies of metadata and stored offsets in the archive."""

    archiver_enabled: Annotated[
        bool,
        flag(
            "Where there is an archive, copy metadata and stored offsets, too: without them a "
            "restore makes up users and groups anew, and has no offsets."
        ),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.duration,
            "Pause between two looks whether they have changed; none: as the archiver's.",
            name="interval",
            show=values.show_duration,
        ),
    ] = 0
    overwrite: Annotated[
        bool,
        flag("Replace the copy of the metadata. Off: earlier ones stay beside it, by their time."),
    ] = True


class DataMaintenance(Section, frozen=True):
    """What is done to stored data in the background."""

    messages: Messages = Messages()
    scrub: Scrub = Scrub()
    archiver: Archiver = Archiver()
    state: StateCopies = StateCopies()

    @property
    def state_interval_us(self) -> int:
        """Pause between two looks at metadata and stored offsets."""
        return self.state.interval_us or self.archiver.interval_us
