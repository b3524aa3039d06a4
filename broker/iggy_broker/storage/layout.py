"""Where things are on disk: names only, no access.

streams/{stream}/topics/{topic}/partitions/{partition}/
    00000000000000000000.log     batches, byte for byte as polled; named by the first offset
    00000000000000000000.index   24-byte entries: offset, timestamp, position
    offsets/consumers/{id}       one stored offset each
    offsets/groups/{id}
    synced                       how far the log is known to be on the disk
    clean                        written by a clean stop: opens without reading the log
    life                         which life of the partition this is, and its purges
    trim                         up to where segments are to go, once all have read them
    cut/                         what recovery cut off
"""

import re

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
DELETED_SUFFIX = ".deleted"  # renamed out of sight, to be removed
SYNCED_FILE = "synced"
CLEAN_FILE = "clean"
LIFE_FILE = "life"
TRIM_FILE = "trim"
PURGING_FILE = "purging"
OFFSETS_FOLDER = "offsets"
CONSUMERS_FOLDER = "consumers"
GROUPS_FOLDER = "groups"
CUT_FOLDER = "cut"

_LOG_NAME = re.compile(r"\d{20}\.log", re.ASCII)
_INDEX_NAME = re.compile(r"\d{20}\.index", re.ASCII)


def stream_folder(root: str, stream_id: int) -> str:
    """Folder of a stream below the data directory `root`."""
    return f"{root}/streams/{stream_id}"


def topic_folder(root: str, stream_id: int, topic_id: int) -> str:
    """Folder of a topic."""
    return f"{root}/streams/{stream_id}/topics/{topic_id}"


def partition_folder(root: str, stream_id: int, topic_id: int, partition_id: int) -> str:
    """Folder of a partition."""
    return f"{root}/streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}"


def log_path(folder: str, first_offset: int) -> str:
    """Data file of the segment that starts at `first_offset`."""
    return f"{folder}/{first_offset:020d}{LOG_SUFFIX}"


def index_path(folder: str, first_offset: int) -> str:
    """Index file of the segment that starts at `first_offset`."""
    return f"{folder}/{first_offset:020d}{INDEX_SUFFIX}"


def log_first_offset(name: str) -> int | None:
    """First offset if the file name is a segment's log, else None."""
    return int(name[:20]) if _LOG_NAME.fullmatch(name) else None


def index_first_offset(name: str) -> int | None:
    """First offset if the file name is a segment's index, else None."""
    return int(name[:20]) if _INDEX_NAME.fullmatch(name) else None


def parents_of(folder: str) -> tuple[str, ...]:
    """The folders above that may be as new as this one: up to the data directory."""
    parents = []
    for _ in range(6):  # partitions, topic, topics, stream, streams, data directory
        folder = folder.rpartition("/")[0]
        if not folder:
            break
        parents.append(folder)
    return tuple(parents)
