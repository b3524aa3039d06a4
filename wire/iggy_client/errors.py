"""What can go wrong for a caller: the server refuses, or the link to it is gone."""

from typing import Final

from iggy_wire.errors import ErrorCode, error_name

# What to do about the refusals that people meet most.
_FIXES: Final[dict[int, str]] = {
    ErrorCode.INVALID_COMMAND: "the server does not know or cannot read this command",
    ErrorCode.FEATURE_UNAVAILABLE: "this server does not offer the command",
    ErrorCode.RESOURCE_NOT_FOUND: "check that stream, topic and partition exist",
    ErrorCode.UNAUTHENTICATED: "log in first; after a lost session call reconnect()",
    ErrorCode.UNAUTHORIZED: "this user lacks the permission",
    ErrorCode.INVALID_CREDENTIALS: "check username and password",
    ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN: "the token is unknown or has expired: make a new one",
    ErrorCode.STALE_CLIENT: "the server saw no request for too long: call reconnect()",
    ErrorCode.STREAM_ID_NOT_FOUND: "create the stream first, or check its name",
    ErrorCode.STREAM_NAME_ALREADY_EXISTS: "choose another name, or use the stream that is there",
    ErrorCode.TOPIC_ID_NOT_FOUND: "create the topic first, or check its name",
    ErrorCode.TOPIC_NAME_ALREADY_EXISTS: "choose another name, or use the topic that is there",
    ErrorCode.TOO_MANY_PARTITIONS: "ask for 1 to 1000 partitions at a time",
    ErrorCode.INVALID_PARTITIONS_COUNT: "the topic has fewer partitions than that",
    ErrorCode.PARTITION_NOT_FOUND: "partitions count from 0: ask get_topic how many there are",
    ErrorCode.CONSUMER_OFFSET_NOT_FOUND: "this consumer has stored no offset here",
    ErrorCode.UNSUPPORTED_OPTION_KEY: "check the spelling of the option",
    ErrorCode.INVALID_OPTION_VALUE: "check kind and range of the option's value",
    ErrorCode.INVALID_OFFSET: "store an offset that has been written already",
    ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND: "create the group first, or check its name",
    ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS: "use the group that is there",
    ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION: "use a client and a server of the same generation",
}


class ClientError(Exception):
    """The server refused. `code` is its number, which may be one that we do not know."""

    def __init__(self, code: int, detail: str) -> None:
        """`detail`: what was asked, on what."""
        fix = _FIXES.get(code)
        told = f"{error_name(code)} {int(code)}: {detail}"
        super().__init__(f"{told}: {fix}" if fix else told)
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type["ClientError"], tuple[int, str]]:
        """Pickle by the two arguments: errors cross processes in Spark."""
        return type(self), (self.code, self.detail)


class SessionLostError(ClientError):
    """The server has ended the session. The connection is closed: `reconnect()`."""


class LinkError(ConnectionError):
    """The connection could not be made, broke, or carried nonsense. It is closed: `reconnect()`.

    What a request in flight has done at the server is not known.
    """


class LinkTimeoutError(LinkError, TimeoutError):
    """The server did not answer in time. The connection is closed: `reconnect()`."""
