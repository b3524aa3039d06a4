"""The seam between protocol generations: what differs from one to the next hangs on a `Dialect`.

The version at the start of a login body picks the dialect of a connection: P11 is protocol 0.11.0,
spoken by the released clients, and P12 are the steps 0.12.0 to 0.12.2, each a dialect of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Final

from iggy_wire import (
    replies,
    replies_p12,
    replies_waiting,
    requests_access,
    requests_messages,
    requests_p12,
    requests_resources,
    requests_system,
    requests_waiting,
)
from iggy_wire.codes import Command
from iggy_wire.replies_in_p12 import IN_P12, IN_P12_WITH_NODES, Converters
from iggy_wire.reply_base import EmptyReply, Reply
from iggy_wire.request_base import Request
from iggy_wire.versions import (
    VERSION_0_11_0,
    VERSION_0_12_0,
    VERSION_0_12_1,
    VERSION_0_12_2,
    pack_version,
    version_text,
)

__all__ = [
    "DIALECTS",
    "P11",
    "P12_0",
    "P12_1",
    "P12_2",
    "SERVED",
    "VERSION_MAX",
    "VERSION_MIN",
    "Dialect",
    "dialect_of",
    "pack_version",
    "version_text",
]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One step of the protocol: its version, and the layouts of its bodies by command."""

    name: str
    version: int  # packed; what clients log in with, and what we answer with
    requests: Mapping[int, type[Request]]
    replies: Mapping[int, type[Reply]]
    converters: Converters = field(default_factory=dict)  # for replies as P11 has them

    @property
    def is_p12(self) -> bool:
        """Whether requests and replies name the context of partitions, among other things."""
        return self.version >= VERSION_0_12_0

    def encode(self, reply: Reply) -> bytes:
        """The body of a reply that was made for P11, in this dialect."""
        convert = self.converters.get(type(reply))
        return (reply if convert is None else convert(reply)).encode()


def _layouts(*modules: ModuleType) -> dict[int, type[Request]]:
    """The requests of these modules, by command."""
    return {
        request.command: request
        for module in modules
        for request in vars(module).values()
        if isinstance(request, type) and issubclass(request, Request)
        if hasattr(request, "command") and request.__module__ == module.__name__
    }


_REQUESTS: Final = _layouts(requests_system, requests_access, requests_resources, requests_messages)

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

P11: Final = Dialect(name="P11", version=VERSION_0_11_0, requests=_REQUESTS, replies=_REPLIES)

_RETIRED: Final = frozenset(
    {
        Command.UPDATE_STREAM,
        Command.UPDATE_TOPIC,
        Command.UPDATE_USER,
        Command.PURGE_STREAM,
        Command.PURGE_TOPIC,
        Command.FLUSH_UNSAVED_BUFFER,
    }
)
_P12_REQUESTS: Final[dict[int, type[Request]]] = {
    **{command: request for command, request in _REQUESTS.items() if command not in _RETIRED},
    **_layouts(requests_p12, requests_waiting),
}
# The first step waits for several partitions, all others fetch from them.
_WAIT: Final = _P12_REQUESTS.pop(Command.WAIT_FOR_MESSAGES)
_FETCH: Final = _P12_REQUESTS.pop(Command.FETCH_MESSAGES)
_FIRST_REQUESTS: Final = _P12_REQUESTS | {Command.WAIT_FOR_MESSAGES: _WAIT}
_LATER_REQUESTS: Final = _P12_REQUESTS | {Command.FETCH_MESSAGES: _FETCH}
_P12_REPLIES: Final[dict[int, type[Reply]]] = {
    **{command: reply for command, reply in _REPLIES.items() if command not in _RETIRED},
    Command.BIND_SESSION: replies.LoginReply,
    Command.UPDATE_RESOURCE: EmptyReply,
    Command.GET_STATS: replies_p12.Stats,
    Command.GET_CLUSTER_METADATA: replies_p12.Cluster,
    Command.DESCRIBE_OPTIONS: replies_p12.Catalog,
    Command.GET_USER: replies_p12.UserDetails,
    Command.GET_USERS: replies_p12.Users,
    Command.CREATE_USER: replies_p12.UserDetails,
    Command.GET_STREAM: replies_p12.StreamDetails,
    Command.GET_STREAMS: replies_p12.Streams,
    Command.CREATE_STREAM: replies_p12.Stream,
    Command.GET_TOPIC: replies_p12.TopicDetails,
    Command.GET_TOPICS: replies_p12.Topics,
    Command.CREATE_TOPIC: replies_p12.TopicDetails,
    Command.POLL_MESSAGES: replies_p12.Polled,
    Command.POLL_MESSAGES_DEFERRED: replies_p12.Polled,
    Command.GET_PARTITION_ROUTE: replies_waiting.PartitionRoute,
    Command.WAIT_FOR_MESSAGES: replies_waiting.ReadyPartitions,
    Command.FETCH_MESSAGES: replies_waiting.Fetched,
}
_PLACED_REPLIES: Final[dict[int, type[Reply]]] = {
    **_P12_REPLIES,
    Command.GET_TOPIC: replies_p12.PlacedTopicDetails,
    Command.CREATE_TOPIC: replies_p12.PlacedTopicDetails,
}

P12_0: Final = Dialect("P12", VERSION_0_12_0, _FIRST_REQUESTS, _P12_REPLIES, IN_P12)
P12_1: Final = Dialect("P12", VERSION_0_12_1, _LATER_REQUESTS, _P12_REPLIES, IN_P12)
P12_2: Final = Dialect("P12", VERSION_0_12_2, _LATER_REQUESTS, _PLACED_REPLIES, IN_P12_WITH_NODES)

DIALECTS: Final = (P11, P12_0, P12_1, P12_2)
SERVED: Final = " ".join(version_text(dialect.version) for dialect in DIALECTS)
"""All versions, for people."""

_BY_VERSION: Final = {dialect.version: dialect for dialect in DIALECTS}

# What a refusal of a version names as accepted, packed. Not all in between is: 0.11.1 has a part of
# what P12 has.
VERSION_MIN: Final = min(_BY_VERSION)
VERSION_MAX: Final = max(_BY_VERSION)


def dialect_of(version: int) -> Dialect | None:
    """The dialect that serves this packed version; None: evict, naming the accepted window."""
    return _BY_VERSION.get(version)
