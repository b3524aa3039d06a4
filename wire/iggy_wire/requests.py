"""The body of every P11 request that we understand, both ways: one class per command."""

from typing import TypeAlias

from iggy_wire import requests_p12
from iggy_wire.buffer import Buffer
from iggy_wire.codes import (
    CODES_OF_OTHER_OPERATIONS,
    COMMAND_OF_OPERATION,
    Command,
    Operation,
)
from iggy_wire.dialect import Dialect
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import RequestHeader
from iggy_wire.request_base import EmptyRequest, Request
from iggy_wire.requests_access import (
    ChangePassword,
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    GetSnapshot,
    UpdatePermissions,
    UpdateUser,
)
from iggy_wire.requests_messages import (
    DeleteConsumerOffset,
    FlushUnsavedBuffer,
    GetConsumerOffset,
    PollMessages,
    SendMessages,
    StoreConsumerOffset,
    send_head,
)
from iggy_wire.requests_resources import (
    CreateConsumerGroup,
    CreatePartitions,
    CreateStream,
    CreateTopic,
    DeleteConsumerGroup,
    DeletePartitions,
    DeleteSegments,
    DeleteStream,
    DeleteTopic,
    GetConsumerGroup,
    GetConsumerGroups,
    GetStream,
    GetStreams,
    GetTopic,
    GetTopics,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    PurgeStream,
    PurgeTopic,
    SyncConsumerGroup,
    UpdateStream,
    UpdateTopic,
)
from iggy_wire.requests_system import (
    CreateUser,
    DeleteUser,
    DescribeOptions,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetStats,
    GetUser,
    GetUsers,
    Login,
    LoginWithToken,
    Logout,
    Ping,
    login_version,
)
from iggy_wire.versions import P12_VERSIONS

AnyLogin: TypeAlias = Login | LoginWithToken | requests_p12.Login | requests_p12.LoginWithToken

__all__ = [
    "AnyLogin",
    "ChangePassword",
    "CreateConsumerGroup",
    "CreatePartitions",
    "CreatePersonalAccessToken",
    "CreateStream",
    "CreateTopic",
    "CreateUser",
    "DeleteConsumerGroup",
    "DeleteConsumerOffset",
    "DeletePartitions",
    "DeletePersonalAccessToken",
    "DeleteSegments",
    "DeleteStream",
    "DeleteTopic",
    "DeleteUser",
    "DescribeOptions",
    "EmptyRequest",
    "FlushUnsavedBuffer",
    "GetClient",
    "GetClients",
    "GetClusterMetadata",
    "GetConsumerGroup",
    "GetConsumerGroups",
    "GetConsumerOffset",
    "GetMe",
    "GetPersonalAccessTokens",
    "GetSnapshot",
    "GetStats",
    "GetStream",
    "GetStreams",
    "GetTopic",
    "GetTopics",
    "GetUser",
    "GetUsers",
    "JoinConsumerGroup",
    "LeaveConsumerGroup",
    "Login",
    "LoginWithToken",
    "Logout",
    "Ping",
    "PollMessages",
    "PurgeStream",
    "PurgeTopic",
    "Request",
    "SendMessages",
    "StoreConsumerOffset",
    "SyncConsumerGroup",
    "UpdatePermissions",
    "UpdateStream",
    "UpdateTopic",
    "UpdateUser",
    "command_of",
    "decode_login",
    "decode_request",
    "login_version",
    "send_head",
]


def command_of(header: RequestHeader) -> Command:
    """Which command a request is. A login may still turn out to be `LOGIN_WITH_TOKEN`.

    Raises `WireError`: `INVALID_COMMAND` for numbers nobody knows, `FEATURE_UNAVAILABLE` for a
    known command that came as the wrong operation.
    """
    operation = header.operation
    if operation == Operation.NON_REPLICATED:
        code = header.code
        if code in CODES_OF_OTHER_OPERATIONS:
            detail = f"command code {code}: must be sent as an operation of its own"
            raise WireError(ErrorCode.FEATURE_UNAVAILABLE, detail)
        try:
            return Command(code)
        except ValueError:
            raise WireError(ErrorCode.INVALID_COMMAND, f"command code {code}: unknown") from None
    if operation == Operation.REGISTER:
        return Command.LOGIN
    command = COMMAND_OF_OPERATION.get(operation)
    if command is None:
        raise WireError(ErrorCode.INVALID_COMMAND, f"operation {operation}: not for clients")
    return command


def decode_login(body: Buffer) -> AnyLogin:
    """Whichever layout fits: the body does not say. Password first (Iggy protocol 0.11)."""
    layouts: tuple[type[AnyLogin], type[AnyLogin]] = (Login, LoginWithToken)
    if login_version(body) in P12_VERSIONS:
        layouts = (requests_p12.Login, requests_p12.LoginWithToken)
    by_password, by_token = layouts
    try:
        return by_password.decode(body)
    except WireError as as_password:
        try:
            return by_token.decode(body)
        except WireError as as_token:
            detail = f"neither login layout fits: {as_password.detail}; {as_token.detail}"
            raise WireError(ErrorCode.INVALID_FORMAT, detail) from None


def decode_request(dialect: Dialect, header: RequestHeader, body: Buffer) -> Request:
    """The request of a frame. Raises `WireError` with the number that the refusal carries.

    Beside the malformed: `FEATURE_UNAVAILABLE` for commands without a layout in this dialect.
    """
    command = command_of(header)
    if command is Command.LOGIN:
        return decode_login(body)
    layout = dialect.requests.get(command)
    if layout is None:
        detail = f"command {command.name.lower()}: not served in dialect {dialect.name}"
        raise WireError(ErrorCode.FEATURE_UNAVAILABLE, detail)
    return layout.decode(body)
