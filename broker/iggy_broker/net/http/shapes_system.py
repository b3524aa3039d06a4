"""Bodies of answers about the server itself: clients, nodes, figures, options. See `shapes`."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from iggy_broker.net.http.shapes import KIND_WORDS, NOT_IN_ORIGINAL, fields_of
from iggy_broker.net.http.sizes import size_text
from iggy_wire import replies
from iggy_wire.primitives import USER_NOT_LOGGED_IN
from iggy_wire.replies_p12 import NODE_ID

_TRANSPORTS: Final = {1: "TCP", 2: "QUIC", 3: "HTTP", 4: "WebSocket"}
_ROLES: Final = {0: "leader", 1: "follower"}
_NODE_STATES: Final = ("healthy", "starting", "stopping", "unreachable", "maintenance")


class OptionDescription(Struct, frozen=True):
    """An option that there is; the default as bytes, one number each."""

    key: str
    kind: str
    default_value: list[int]
    description: str


class Client(Struct, frozen=True):
    """A connection in a list."""

    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int


class Membership(Struct, frozen=True):
    """A group that a connection is a member of."""

    stream_id: int
    topic_id: int
    group_id: int


class ClientDetails(Struct, frozen=True):
    """One connection."""

    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int
    consumer_groups: list[Membership]


class Endpoints(Struct, frozen=True):
    """Ports as bound; 0: not served."""

    tcp: int
    quic: int
    http: int
    websocket: int


class Node(Struct, frozen=True):
    """A server. Clients of 0.12 need `replica_id`."""

    name: str
    ip: str
    endpoints: Endpoints
    role: str
    status: str
    replica_id: int | UnsetType = UNSET


class Cluster(Struct, frozen=True):
    """All servers."""

    name: str
    nodes: list[Node]


class Stats(Struct, frozen=True):
    """How the server does."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: str
    total_memory: str
    available_memory: str
    run_time: int
    start_time: int
    read_bytes: str
    written_bytes: str
    messages_size_bytes: str
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    iggy_server_version: str
    iggy_server_semver: int | None
    cache_metrics: dict[str, dict[str, float]]
    threads_count: int
    free_disk_space: str
    total_disk_space: str


def client(one: replies.ClientInfo) -> Client:
    """A connection in a list."""
    user_id = None if one.user_id == USER_NOT_LOGGED_IN else one.user_id
    transport = _TRANSPORTS.get(one.transport, "TCP")
    return Client(one.client_id, user_id, one.address, transport, one.groups_count)


def client_details(one: replies.ClientDetails) -> ClientDetails:
    """One connection."""
    groups = [Membership(each.stream_id, each.topic_id, each.group_id) for each in one.groups]
    return ClientDetails(**fields_of(client(one.client)), consumer_groups=groups)


def cluster(one: replies.Cluster, *, is_strict: bool) -> Cluster:
    """All servers."""
    nodes = [
        Node(
            node.name,
            node.address,
            Endpoints(node.tcp_port, node.quic_port, node.http_port, node.websocket_port),
            _ROLES[node.role],
            _NODE_STATES[node.status],
            UNSET if is_strict else NODE_ID,
        )
        for node in one.nodes
    ]
    return Cluster(one.name, nodes)


def stats(one: replies.Stats) -> Stats:
    """Figures of the server."""
    return Stats(
        process_id=one.process_id,
        cpu_usage=one.cpu_usage,
        total_cpu_usage=one.total_cpu_usage,
        memory_usage=size_text(one.memory_usage),
        total_memory=size_text(one.total_memory),
        available_memory=size_text(one.available_memory),
        run_time=one.run_time_us,
        start_time=one.start_time_us,
        read_bytes=size_text(one.read_bytes),
        written_bytes=size_text(one.written_bytes),
        messages_size_bytes=size_text(one.messages_size_bytes),
        streams_count=one.streams_count,
        topics_count=one.topics_count,
        partitions_count=one.partitions_count,
        segments_count=one.segments_count,
        messages_count=one.messages_count,
        clients_count=one.clients_count,
        consumer_groups_count=one.consumer_groups_count,
        hostname=one.hostname,
        os_name=one.os_name,
        os_version=one.os_version,
        kernel_version=one.kernel_version,
        iggy_server_version=one.server_version,
        iggy_server_semver=one.server_semver or None,
        cache_metrics={},
        threads_count=one.threads_count,
        free_disk_space=size_text(one.free_disk_space),
        total_disk_space=size_text(one.total_disk_space),
    )


def catalogue(one: replies.Catalog, *, is_strict: bool) -> list[OptionDescription]:
    """Which options there are."""
    return [
        OptionDescription(each.key, kind_word(each.kind), list(each.default), each.description)
        for each in one.options
        if not (is_strict and each.key in NOT_IN_ORIGINAL)
    ]


def kind_word(kind: int) -> str:
    """The word for a kind of value."""
    return KIND_WORDS[kind - 1]
