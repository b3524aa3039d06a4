"""The two numbering spaces of the protocol: operations (one byte) and command codes (32 bits).

The operation byte of a request picks its class. A command code travels only in requests of
operation `NON_REPLICATED`; for all others the operation alone says what is wanted, and the code is
just the older name of the same thing (Iggy protocol 0.11, chapters on operations and commands).
Every known number is here, also of commands that nobody serves yet: those get a typed refusal.
"""

from enum import IntEnum
from typing import Final


class FrameKind(IntEnum):
    """Byte 60 of every header ("command" in the protocol's own words)."""

    REQUEST = 5
    REPLY = 8
    EVICTION = 13


class Operation(IntEnum):
    """Byte 176 of a request, byte 208 of a reply."""

    REGISTER = 1
    NON_REPLICATED = 2
    LOGOUT = 3
    # Internal ones: servers log them; 64, 65, 68 and 72..74 also stand in replies.
    CREATE_TOPIC_WITH_ASSIGNMENTS = 64
    CREATE_PARTITIONS_WITH_ASSIGNMENTS = 65
    REMOVE_CONSUMER_GROUP_MEMBER = 66
    COMPLETE_CONSUMER_GROUP_REVOCATION = 67
    TRUNCATE_PARTITION = 68
    UPDATE_RESOURCE_STREAM = 72
    UPDATE_RESOURCE_TOPIC = 73
    UPDATE_RESOURCE_USER = 74
    CREATE_STREAM = 128
    UPDATE_STREAM = 129
    DELETE_STREAM = 130
    PURGE_STREAM = 131
    CREATE_TOPIC = 132
    UPDATE_TOPIC = 133
    DELETE_TOPIC = 134
    PURGE_TOPIC = 135
    CREATE_PARTITIONS = 136
    DELETE_PARTITIONS = 137
    DELETE_SEGMENTS = 138
    CREATE_CONSUMER_GROUP = 139
    DELETE_CONSUMER_GROUP = 140
    CREATE_USER = 141
    UPDATE_USER = 142
    DELETE_USER = 143
    CHANGE_PASSWORD = 144
    UPDATE_PERMISSIONS = 145
    CREATE_PERSONAL_ACCESS_TOKEN = 146
    DELETE_PERSONAL_ACCESS_TOKEN = 147
    JOIN_CONSUMER_GROUP = 148
    LEAVE_CONSUMER_GROUP = 149
    UPDATE_RESOURCE = 150
    SEND_MESSAGES = 160
    STORE_CONSUMER_OFFSET = 161
    DELETE_CONSUMER_OFFSET = 162


class Command(IntEnum):
    """A command code: `u32` at offset 196 of a `NON_REPLICATED` request, else implied."""

    PING = 1
    GET_STATS = 10
    GET_SNAPSHOT = 11
    GET_CLUSTER_METADATA = 12
    DESCRIBE_OPTIONS = 13
    ATTACH_CONSUMER_SESSION = 14
    BIND_SESSION = 15
    UPDATE_RESOURCE = 16
    GET_METADATA_CHANGES = 17
    GET_ME = 20
    GET_CLIENT = 21
    GET_CLIENTS = 22
    GET_USER = 31
    GET_USERS = 32
    CREATE_USER = 33
    DELETE_USER = 34
    UPDATE_USER = 35
    UPDATE_PERMISSIONS = 36
    CHANGE_PASSWORD = 37
    LEGACY_LOGIN = 38
    LOGOUT = 39
    LOGIN = 40
    GET_PERSONAL_ACCESS_TOKENS = 41
    CREATE_PERSONAL_ACCESS_TOKEN = 42
    DELETE_PERSONAL_ACCESS_TOKEN = 43
    LEGACY_LOGIN_WITH_TOKEN = 44
    LOGIN_WITH_TOKEN = 45
    POLL_MESSAGES = 100
    SEND_MESSAGES = 101
    FLUSH_UNSAVED_BUFFER = 102
    GET_POLL_ROUTING = 103
    POLL_ON_PRIMARY = 104
    GET_PARTITION_ROUTE = 105
    POLL_MESSAGES_DEFERRED = 106
    WAIT_FOR_MESSAGES = 107
    CANCEL_DEFERRED = 108
    FETCH_MESSAGES = 109
    GET_CONSUMER_OFFSET = 120
    STORE_CONSUMER_OFFSET = 121
    DELETE_CONSUMER_OFFSET = 122
    GET_OFFSET_ROUTING = 123
    GET_STREAM = 200
    GET_STREAMS = 201
    CREATE_STREAM = 202
    DELETE_STREAM = 203
    UPDATE_STREAM = 204
    PURGE_STREAM = 205
    GET_TOPIC = 300
    GET_TOPICS = 301
    CREATE_TOPIC = 302
    DELETE_TOPIC = 303
    UPDATE_TOPIC = 304
    PURGE_TOPIC = 305
    CREATE_PARTITIONS = 402
    DELETE_PARTITIONS = 403
    DELETE_SEGMENTS = 503
    GET_CONSUMER_GROUP = 600
    GET_CONSUMER_GROUPS = 601
    CREATE_CONSUMER_GROUP = 602
    DELETE_CONSUMER_GROUP = 603
    JOIN_CONSUMER_GROUP = 604
    LEAVE_CONSUMER_GROUP = 605
    SYNC_CONSUMER_GROUP = 606


# Which command a metadata or partition operation stands for. REGISTER is not here: its body decides
# between LOGIN and LOGIN_WITH_TOKEN.
COMMAND_OF_OPERATION: Final[dict[int, Command]] = {
    operation: Command[operation.name]
    for operation in Operation
    if operation >= Operation.CREATE_STREAM or operation is Operation.LOGOUT
}

OPERATION_OF_COMMAND: Final[dict[int, Operation]] = {
    **{command: Operation(operation) for operation, command in COMMAND_OF_OPERATION.items()},
    Command.LOGIN: Operation.REGISTER,
    Command.LOGIN_WITH_TOKEN: Operation.REGISTER,
}

# Codes that are commands, but must come as their own operation: sent as NON_REPLICATED they are
# refused with FEATURE_UNAVAILABLE, never with "unknown".
CODES_OF_OTHER_OPERATIONS: Final[frozenset[int]] = frozenset(
    command
    for command, operation in OPERATION_OF_COMMAND.items()
    if operation >= Operation.CREATE_STREAM
)

# Logins of the framing before 0.9: answered by an eviction, whatever the body is.
LEGACY_LOGIN_CODES: Final[frozenset[int]] = frozenset(
    {Command.LEGACY_LOGIN, Command.LEGACY_LOGIN_WITH_TOKEN}
)

# Session commands wrongly sent as NON_REPLICATED: an empty success (Iggy protocol 0.11).
SESSION_CODES: Final[frozenset[int]] = frozenset({Command.LOGOUT, Command.LOGIN})

_INTERNAL_FIRST, _METADATA_FIRST, _PARTITION_FIRST, _PARTITION_LAST = 64, 128, 160, 162


def is_internal(operation: int) -> bool:
    """Whether only servers use this operation: a client that sends it is evicted."""
    return _INTERNAL_FIRST <= operation < _METADATA_FIRST


def is_metadata(operation: int) -> bool:
    """Whether this operation changes metadata: logged, and its retries are recognised."""
    return _METADATA_FIRST <= operation < _PARTITION_FIRST


def is_partition(operation: int) -> bool:
    """Whether this operation writes to one partition: sends and stored offsets."""
    return _PARTITION_FIRST <= operation <= _PARTITION_LAST


def is_result_framed(operation: int, body_bytes: int) -> bool:
    """Whether a reply of this operation starts with a result section, by the reply's own byte."""
    if operation == Operation.REGISTER:
        return body_bytes > 0
    if operation == Operation.DELETE_SEGMENTS:
        return False
    return _INTERNAL_FIRST <= operation <= _PARTITION_LAST and operation != Operation.SEND_MESSAGES
