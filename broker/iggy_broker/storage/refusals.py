"""What a client is told when the disk refuses its messages."""

from iggy_broker.errors import Reject
from iggy_broker.storage.disk import StorageFailed, is_full, may_pass
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import UnreadableBatchError


def refusal(path: str, error: OSError) -> Exception:
    """Of a write. StorageFailed if the disk is broken."""
    if not may_pass(error):
        return StorageFailed(f"{path}: {error}")
    why = "no space left" if is_full(error) else "the disk does not take it now"
    return Reject(ErrorCode.CANNOT_APPEND_MESSAGE, f"{path}: {why}: {error}")


def not_appended(path: str, error: OSError) -> Reject:
    """Of a read that an append needs."""
    return Reject(ErrorCode.CANNOT_APPEND_MESSAGE, f"{path}: {error}")


def unreadable(path: str, error: OSError) -> Reject:
    """Of a read."""
    return Reject(ErrorCode.CANNOT_READ_MESSAGE, f"{path}: {error}")


def not_opened(path: str, error: UnreadableBatchError) -> Reject:
    """Of a read of what is encrypted."""
    fix = "" if error.is_given else "; name it in system.encryption.old_keys"
    return Reject(ErrorCode.CANNOT_DECRYPT_DATA, f"{path}: {error.detail}{fix}")


def beyond_end(offset: int, end: int) -> Reject:
    """Of an offset that is to be stored, where the last message is before `end`."""
    at = f"the last offset is {end - 1}" if end else "the partition is empty"
    return Reject(ErrorCode.INVALID_OFFSET, f"offset {offset} cannot be stored: {at}")


def not_served(folder: str, why: str, *, deleted: bool, waits: bool) -> Reject:
    """Of a partition that is not open."""
    if deleted:
        return Reject(ErrorCode.RESOURCE_NOT_FOUND, f"{folder} was deleted")
    if waits:
        return Reject(ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE, why)
    fix = "restore the missing file, or purge"
    return Reject(ErrorCode.CANNOT_READ_PARTITIONS, f"{folder} is not served: {why}; {fix}")
