"""Bodies of replies about the server, sessions and users."""

from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire.cursor import (
    Reader,
    name_bytes,
    pack,
    text8_bytes,
    text32_bytes,
    u8_bytes,
    u32_bytes,
)
from iggy_wire.options import Options, options32_bytes, read_options32
from iggy_wire.permissions import (
    Permissions,
    optional_permissions_bytes,
    read_optional_permissions,
)
from iggy_wire.reply_base import Reply

_LOGIN: Final = Struct("<IQI")
# process_id .. consumer_groups_count, in the order of the fields of `Stats`
_STATS_HEAD: Final = Struct("<IffQQQQQQQQIIIIQII")
_STATS_HEAD_COUNT: Final = 18
_STATS_TAIL: Final = Struct("<IQQ")
_CACHE: Final = Struct("<IIIQQf")
_NODE: Final = Struct("<HHHHBB")
_NODE_BYTES_MIN: Final = 18
_CLIENT_HEAD: Final = Struct("<IIB")
_MEMBERSHIP: Final = Struct("<III")
_DESCRIPTION_BYTES_MIN: Final = 11
_USER_HEAD: Final = Struct("<IQB")


class LoginReply(Reply, frozen=True, gc=False):
    """Who is logged in, and under which session number (never 0). Versions are the server's."""

    user_id: int
    session: int
    protocol_version: int
    server_version: str

    def encode(self) -> bytes:
        """User, session, packed version, version text."""
        head = pack(_LOGIN, "login", self.user_id, self.session, self.protocol_version)
        return head + text8_bytes(self.server_version, "server version")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_LOGIN, "login")
        return cls(*(*head, reader.text8("server version")))


class CacheMetrics(msgspec.Struct, frozen=True, gc=False):
    """How well the cache of one partition does."""

    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float


class Stats(Reply, frozen=True, gc=False):
    """How the server is doing. Sizes in bytes, times in microseconds, usage in percent."""

    process_id: int = 0
    cpu_usage: float = 0.0
    total_cpu_usage: float = 0.0
    memory_usage: int = 0
    total_memory: int = 0
    available_memory: int = 0
    run_time_us: int = 0
    start_time_us: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    messages_size_bytes: int = 0
    streams_count: int = 0
    topics_count: int = 0
    partitions_count: int = 0
    segments_count: int = 0
    messages_count: int = 0
    clients_count: int = 0
    consumer_groups_count: int = 0
    hostname: str = ""
    os_name: str = ""
    os_version: str = ""
    kernel_version: str = ""
    server_version: str = ""
    server_semver: int = 0  # major * 1,000,000 + minor * 1,000 + patch; 0 unknown
    cache: tuple[CacheMetrics, ...] = ()
    threads_count: int = 0
    free_disk_space: int = 0
    total_disk_space: int = 0

    def encode(self) -> bytes:
        """All fields in their order."""
        head = msgspec.structs.astuple(self)[:_STATS_HEAD_COUNT]
        entries = [pack(_CACHE, "cache", *msgspec.structs.astuple(one)) for one in self.cache]
        tail = (self.threads_count, self.free_disk_space, self.total_disk_space)
        return b"".join(
            (
                pack(_STATS_HEAD, "stats", *head),
                text32_bytes(self.hostname, "hostname"),
                text32_bytes(self.os_name, "os name"),
                text32_bytes(self.os_version, "os version"),
                text32_bytes(self.kernel_version, "kernel version"),
                text32_bytes(self.server_version, "server version"),
                u32_bytes(self.server_semver, "server version number"),
                u32_bytes(len(self.cache), "cache entries"),
                *entries,
                pack(_STATS_TAIL, "stats", *tail),
            )
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_STATS_HEAD, "stats")
        fields = ("hostname", "os name", "os version", "kernel version", "server version")
        hostname, os_name, os_version, kernel, server = [reader.text32(field) for field in fields]
        semver = reader.u32("server version number")
        entries = reader.count("cache entries", _CACHE.size)
        cache = tuple(CacheMetrics(*reader.unpack(_CACHE, "cache")) for _ in range(entries))
        tail = reader.unpack(_STATS_TAIL, "stats")
        texts = (hostname, os_name, os_version, kernel, server)
        return cls(*(*head, *texts, semver, cache, *tail))


class Node(msgspec.Struct, frozen=True, gc=False):
    """One server. A port of 0 is not served. Role 0 leader, status 0 healthy."""

    name: str
    address: str
    tcp_port: int = 0
    quic_port: int = 0
    http_port: int = 0
    websocket_port: int = 0
    role: int = 0
    status: int = 0


class Cluster(Reply, frozen=True, gc=False):
    """All servers."""

    name: str
    nodes: tuple[Node, ...]

    def encode(self) -> bytes:
        """Name, then every node."""
        parts = [text32_bytes(self.name, "cluster name"), u32_bytes(len(self.nodes), "nodes")]
        for node in self.nodes:
            name, address, *numbers = msgspec.structs.astuple(node)
            parts.append(text32_bytes(name, "node name") + text32_bytes(address, "node address"))
            parts.append(pack(_NODE, "node", *numbers))
        return b"".join(parts)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        name = reader.text32("cluster name")
        count = reader.count("nodes", _NODE_BYTES_MIN)
        return cls(name, tuple(_read_node(reader) for _ in range(count)))


def _read_node(reader: Reader) -> Node:
    name, address = reader.text32("node name"), reader.text32("node address")
    return Node(name, address, *reader.unpack(_NODE, "node"))


class Membership(msgspec.Struct, frozen=True, gc=False):
    """A consumer group that a connection is a member of."""

    stream_id: int
    topic_id: int
    group_id: int


class ClientInfo(Reply, frozen=True, gc=False):
    """One connection. `client_id` is the server's small number; transport 1 TCP, 2 QUIC, ..."""

    client_id: int
    user_id: int
    transport: int
    address: str
    groups_count: int = 0

    def encode(self) -> bytes:
        """Numbers, address, count of groups."""
        head = pack(_CLIENT_HEAD, "client", self.client_id, self.user_id, self.transport)
        groups = u32_bytes(self.groups_count, "groups count")
        return head + text32_bytes(self.address, "client address") + groups

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_CLIENT_HEAD, "client")
        return cls(*(*head, reader.text32("client address"), reader.u32("groups count")))


class ClientDetails(Reply, frozen=True, gc=False):
    """One connection with its groups; as many as `client.groups_count` says."""

    client: ClientInfo
    groups: tuple[Membership, ...] = ()

    def encode(self) -> bytes:
        """Client, then every membership."""
        return self.client.encode() + b"".join(
            pack(_MEMBERSHIP, "membership", one.stream_id, one.topic_id, one.group_id)
            for one in self.groups
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        client = ClientInfo._read(reader)
        if client.groups_count * _MEMBERSHIP.size > reader.remaining:
            reader.fail(f"memberships: {client.groups_count} announced, too few bytes left")
        return cls(
            client,
            tuple(
                Membership(*reader.unpack(_MEMBERSHIP, "membership"))
                for _ in range(client.groups_count)
            ),
        )


class Clients(Reply, frozen=True, gc=False):
    """All connections."""

    clients: tuple[ClientInfo, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(client.encode() for client in self.clients)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        clients = []
        while reader.remaining:
            clients.append(ClientInfo._read(reader))
        return cls(tuple(clients))


class OptionDescription(msgspec.Struct, frozen=True, gc=False):
    """One option of a catalogue: kind and bytes of its default (none: no default), and its text."""

    key: str
    kind: int
    default: bytes
    description: str


class Catalog(Reply, frozen=True, gc=False):
    """Which options a scope has."""

    options: tuple[OptionDescription, ...] = ()

    def encode(self) -> bytes:
        """Count, then one after another."""
        parts = [u32_bytes(len(self.options), "options count")]
        for one in self.options:
            parts.append(name_bytes(one.key, "option key") + u8_bytes(one.kind, "option kind"))
            parts.append(u32_bytes(len(one.default), "default length") + one.default)
            parts.append(text32_bytes(one.description, "option description"))
        return b"".join(parts)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = reader.count("options count", _DESCRIPTION_BYTES_MIN)
        return cls(tuple(_read_description(reader) for _ in range(count)))


def _read_description(reader: Reader) -> OptionDescription:
    key, kind = reader.name("option key"), reader.u8("option kind")
    default = bytes(reader.take(reader.u32("default length"), "default"))
    return OptionDescription(key, kind, default, reader.text32("option description"))


class User(Reply, frozen=True, gc=False):
    """One user. Status 1 active, 2 inactive."""

    id: int
    created_at_us: int
    status: int
    name: str
    options: Options = ()

    def encode(self) -> bytes:
        """Numbers, name, options."""
        head = pack(_USER_HEAD, "user", self.id, self.created_at_us, self.status)
        return head + name_bytes(self.name, "username") + options32_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = reader.unpack(_USER_HEAD, "user")
        return cls(*(*head, reader.name("username"), read_options32(reader)))


class UserDetails(Reply, frozen=True, gc=False):
    """One user with permissions, if any are set."""

    user: User
    permissions: Permissions | None = None

    def encode(self) -> bytes:
        """User, then permissions; none are four zero bytes (Iggy protocol 0.11)."""
        block = bytes(4) if self.permissions is None else None
        return self.user.encode() + (block or optional_permissions_bytes(self.permissions))

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(User._read(reader), read_optional_permissions(reader))


class Users(Reply, frozen=True, gc=False):
    """All users in ascending order of their ids."""

    users: tuple[User, ...] = ()

    def encode(self) -> bytes:
        """One after another."""
        return b"".join(user.encode() for user in self.users)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        users = []
        while reader.remaining:
            users.append(User._read(reader))
        return cls(tuple(users))
