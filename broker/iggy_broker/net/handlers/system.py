"""Ping, the node and its figures, the catalogue of options."""

from __future__ import annotations

import functools
import os
import platform
import resource
import socket
import threading
from pathlib import Path
from typing import Final

import msgspec

from iggy_broker import __version__
from iggy_broker.config_values import reached
from iggy_broker.errors import Deny
from iggy_broker.metadata import catalogue
from iggy_broker.metadata import options as topic_options
from iggy_broker.net.context import DONE, Answer, Context, Row, Services
from iggy_wire import replies, replies_p12, requests
from iggy_wire.codes import Command
from iggy_wire.cursor import name_bytes, text32_bytes, u8_bytes, u32_bytes
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Option
from iggy_wire.replies_in_p12 import STREAM_DERIVED
from iggy_wire.requests_p12 import Scope

# Iggy protocol 0.11: what a node without clustering calls itself.
CLUSTER_NAME: Final = "single-node"
NODE_NAME: Final = "iggy-node"

TOPIC_SCOPE: Final = 1
EMPTY_SCOPES: Final = (2, 3)  # streams and users have no options

_PERCENT: Final = 100.0
_SECOND_US: Final = 1_000_000


async def ping(context: Context, request: None) -> Answer:
    """Yes."""
    del context, request
    return DONE


async def get_cluster_metadata(context: Context, request: requests.GetClusterMetadata) -> Answer:
    """One node, the leader: this broker. Clients then stay on the address that they used."""
    del request
    services = context.services
    tcp = services.config.tcp
    host, port = tcp.address.host, services.ports["tcp"]
    if tcp.advertised_address:
        host, told_port = reached(tcp.advertised_address)
        port = told_port or port
    others = {f"{name}_port": services.ports.get(name, 0) for name in ("http", "quic", "websocket")}
    node = replies.Node(NODE_NAME, host, tcp_port=port, **others)
    return Answer(context.dialect.encode(replies.Cluster(CLUSTER_NAME, (node,))))


async def get_stats(context: Context, request: requests.GetStats) -> Answer:
    """Figures of the broker. Process and processor: of the shard that answers, since its start."""
    del request
    stats = _stats(context.services)
    if not context.dialect.is_p12:
        return Answer(stats.encode())
    files = len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Answer(replies_p12.Stats(*(*msgspec.structs.astuple(stats), *files)).encode())


async def describe_options(context: Context, request: requests.DescribeOptions) -> Answer:
    """The catalogue of options of a scope: 1 topic, 2 stream, 3 user."""
    if context.dialect.is_p12 and request.scope in tuple(Scope):
        return Answer(_catalog(context.services, Scope(request.scope)).encode())
    if request.scope in EMPTY_SCOPES:
        return Answer(u32_bytes(0, "options count"))
    if request.scope != TOPIC_SCOPE:
        detail = f"scope {request.scope}: ask for 1 (topic), 2 (stream) or 3 (user)"
        raise Deny(ErrorCode.INVALID_COMMAND, detail)
    node = topic_options.node_settings(context.services.config)
    defaults = {option.key: option for option in topic_options.derived((), node)}
    parts = [_description(known, defaults[known.key]) for known in topic_options.CATALOGUE]
    return Answer(u32_bytes(len(parts), "options count") + b"".join(parts))


COMMANDS: Final[dict[int, Row]] = {
    Command.PING: Row(ping),
    Command.GET_CLUSTER_METADATA: Row(get_cluster_metadata, requests.GetClusterMetadata),
    Command.GET_STATS: Row(get_stats, requests.GetStats),
    Command.DESCRIBE_OPTIONS: Row(describe_options, requests.DescribeOptions),
}


def _catalog(services: Services, scope: Scope) -> replies_p12.Catalog:
    """As P12 has it. What is always given has no default, and what only creation takes no flag."""
    if scope is Scope.TOPIC:
        node = topic_options.node_settings(services.config)
        in_force = topic_options.derived((), node, topic_options.P12_CATALOGUE)
    else:
        in_force = STREAM_DERIVED
    defaults = {option.key: option.value for option in in_force}
    return replies_p12.Catalog(
        tuple(
            replies_p12.OptionDescription(
                one.key, one.kind, defaults.get(one.key, b""), one.doc, one.flags
            )
            for one in catalogue.DESCRIBED[scope]
        )
    )


def _description(known: topic_options.Known, default: Option) -> bytes:
    """Name, kind of the value, default behind its length, text: it says what has no field."""
    doc = f"{known.doc} Can be changed." if known.updatable else known.doc
    return (
        name_bytes(known.key, "option key")
        + u8_bytes(known.kind, "value kind")
        + u32_bytes(len(default.value), "default length")
        + default.value
        + text32_bytes(doc, "description")
    )


def _stats(services: Services) -> replies.Stats:
    state = services.replica.state
    topics = [topic for stream in state.streams.values() for topic in stream.topics.values()]
    slots = [partition.slot for topic in topics for partition in topic.partitions]
    totals = services.table.totals(slots)
    counters = services.counters.shared
    uptime_us = max(1, services.clock.now_us() - services.started_at_us)
    times, disk, memory = os.times(), os.statvfs(services.config.system.path), _memory()
    host, load = _host(), os.getloadavg()[0]
    return replies.Stats(
        process_id=os.getpid(),
        cpu_usage=_PERCENT * (times.user + times.system) * _SECOND_US / uptime_us,
        total_cpu_usage=min(_PERCENT, _PERCENT * load / (os.cpu_count() or 1)),
        memory_usage=resident_bytes(),
        total_memory=memory.get("MemTotal", 0),
        available_memory=memory.get("MemAvailable", 0),
        run_time_us=uptime_us,
        start_time_us=services.started_at_us,
        read_bytes=counters.total("bytes_sent_total"),
        written_bytes=counters.total("bytes_received_total"),
        messages_size_bytes=totals.size_bytes,
        streams_count=len(state.streams),
        topics_count=len(topics),
        partitions_count=len(slots),
        segments_count=totals.segments_count,
        messages_count=totals.messages_count,
        clients_count=counters.total("connections"),
        consumer_groups_count=sum(len(topic.groups) for topic in topics),
        hostname=host["hostname"],
        os_name=host["os_name"],
        os_version=host["os_version"],
        kernel_version=host["kernel_version"],
        server_version=__version__,
        server_semver=_semver(__version__),
        threads_count=threading.active_count(),
        free_disk_space=disk.f_bavail * disk.f_frsize,
        total_disk_space=disk.f_blocks * disk.f_frsize,
    )


def _semver(version: str) -> int:
    """Iggy protocol 0.11: major, minor and patch as one number, three decimal digits each."""
    parts = [int(part) for part in version.split("-")[0].split("+")[0].split(".")[:3]]
    major, minor, patch = parts + [0] * (3 - len(parts))
    return major * 1_000_000 + minor * 1000 + patch


@functools.cache
def _host() -> dict[str, str]:
    """What does not change while the machine runs."""
    system = os.uname()
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return {
        "hostname": socket.gethostname(),
        "os_name": release.get("NAME", system.sysname),
        "os_version": release.get("VERSION_ID", ""),
        "kernel_version": system.release,
    }


def _memory() -> dict[str, int]:
    """Bytes of the machine's memory, by the names of /proc/meminfo; empty where there is none."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    words = (line.replace(":", "").split() for line in lines)
    return {word[0]: int(word[1]) * 1024 for word in words if len(word) > 1}


def resident_bytes() -> int:
    """Memory of this process, with what it shares with others; 0 where nobody says."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
