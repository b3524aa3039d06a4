"""The seam between protocol generations: what differs from one to the next hangs on a `Dialect`.

The version at the start of a login body picks the dialect of a connection. Today there is one,
P11: protocol 0.11.0, spoken by the released clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iggy_wire import (
    replies,
    requests_access,
    requests_messages,
    requests_resources,
    requests_system,
)
from iggy_wire.codes import Command
from iggy_wire.reply_base import EmptyReply, Reply
from iggy_wire.request_base import Request

_MINOR_BITS, _PATCH_BITS = 10, 10


def pack_version(major: int, minor: int, patch: int) -> int:
    """The number that stands for a protocol version on the wire."""
    return (major << _MINOR_BITS | minor) << _PATCH_BITS | patch


def version_text(packed: int) -> str:
    """A packed version for people: `0.11.0`."""
    minor = packed >> _PATCH_BITS & (1 << _MINOR_BITS) - 1
    return f"{packed >> _MINOR_BITS + _PATCH_BITS}.{minor}.{packed & (1 << _PATCH_BITS) - 1}"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One generation of the protocol: its versions, and the layouts of its bodies by command."""

    name: str
    version: int  # packed; what we answer with
    versions: frozenset[int]  # packed; what we accept
    requests: Mapping[int, type[Request]]
    replies: Mapping[int, type[Reply]]


_REQUESTS: Final[dict[int, type[Request]]] = {
    request.command: request
    for module in (requests_system, requests_access, requests_resources, requests_messages)
    for request in vars(module).values()
    if isinstance(request, type) and issubclass(request, Request) and hasattr(request, "command")
}

# What each command answers with. An absent single resource is an empty body instead.
_REPLIES: Final[dict[int, type[Reply]]] = {
    **dict.fromkeys(_REQUESTS, EmptyReply),
    Command.LOGIN: replies.LoginReply,
    Command.LOGIN_WITH_TOKEN: replies.LoginReply,
    Command.GET_STATS: replies.Stats,
    Command.GET_CLUSTER_METADATA: replies.Cluster,
    Command.DESCRIBE_OPTIONS: replies.Catalog,
    Command.GET_ME: replies.ClientDetails,
    Command.GET_CLIENT: replies.ClientDetails,
    Command.GET_CLIENTS: replies.Clients,
    Command.GET_USER: replies.UserDetails,
    Command.GET_USERS: replies.Users,
    Command.CREATE_USER: replies.UserDetails,
    Command.GET_PERSONAL_ACCESS_TOKENS: replies.AccessTokens,
    Command.CREATE_PERSONAL_ACCESS_TOKEN: replies.NewToken,
    Command.GET_SNAPSHOT: replies.Archive,
    Command.GET_STREAM: replies.StreamDetails,
    Command.GET_STREAMS: replies.Streams,
    Command.CREATE_STREAM: replies.Stream,
    Command.GET_TOPIC: replies.TopicDetails,
    Command.GET_TOPICS: replies.Topics,
    Command.CREATE_TOPIC: replies.TopicDetails,
    Command.SEND_MESSAGES: replies.Confirmations,
    Command.POLL_MESSAGES: replies.Polled,
    Command.GET_CONSUMER_OFFSET: replies.StoredOffset,
    Command.CREATE_CONSUMER_GROUP: replies.GroupDetails,
    Command.GET_CONSUMER_GROUP: replies.GroupDetails,
    Command.GET_CONSUMER_GROUPS: replies.Groups,
    Command.SYNC_CONSUMER_GROUP: replies.GroupAssignment,
}

_VERSION_0_11_0: Final = pack_version(0, 11, 0)

P11: Final = Dialect(
    name="P11",
    version=_VERSION_0_11_0,
    versions=frozenset({_VERSION_0_11_0}),
    requests=_REQUESTS,
    replies=_REPLIES,
)

DIALECTS: Final = (P11,)

# What a refusal of a version names as accepted, packed.
VERSION_MIN: Final = min(min(dialect.versions) for dialect in DIALECTS)
VERSION_MAX: Final = max(max(dialect.versions) for dialect in DIALECTS)


def dialect_of(version: int) -> Dialect | None:
    """The dialect that serves this packed version; None: evict, naming the accepted window."""
    return next((dialect for dialect in DIALECTS if version in dialect.versions), None)
