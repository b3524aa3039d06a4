"""Names of settings that the broker knows and does not obey, yet or ever.

They are accepted, so that a file written for the original (or for a later IggyKube) starts here,
and each that asks for something is a warning. A name moves to `config_sections` with its code.
"""

from __future__ import annotations

from typing import Final

_TLS: Final = "enabled self_signed cert_file key_file ca_file"

_NAMES: Final[dict[str, str]] = {
    "consumer_group": "rebalancing_check_interval",
    "telemetry": "enabled service_name",
    "telemetry.logs": "transport endpoint",
    "telemetry.traces": "transport endpoint",
    "tracing": "enabled endpoint",
    "system.runtime": "path",
    "system.backup": "path",
    "system.logging": "path file_enabled max_file_size max_size max_total_size "
    "rotation_check_interval retention sysinfo_print_interval",
    "system.stream": "path",
    "system.topic": "path",
    "system.partition": "path",
    "system.segment": "preallocate server_confirmation",
    "system.compression": "default_algorithm allow_override",
    "system.memory_pool": "enabled size bucket_capacity",
    "system.sharding": "pin_cores inbox_capacity reply_inbox_capacity shutdown_poll_interval "
    "shutdown_join_timeout reconcile_periodic_interval",
    "metadata": "prepare_queue_depth clients_table_max",
    "partition": "prepare_queue_depth evicted_ring_capacity evicted_ring_bytes_max "
    "transfer_served_cache_bytes_max transfer_artifact_bytes_max",
    "message_bus": "max_batch peer_queue_capacity reconnect_period close_peer_timeout close_grace "
    "handshake_grace",
    "data_maintenance.messages": "archiver_enabled",
    "cluster": "enabled name nodes heartbeat_timeout commit_broadcast_interval "
    "prepare_retransmit_interval view_change_retransmit_interval view_change_status_timeout "
    "request_start_view_retransmit_interval view_probe_attempts_max repair_retry_interval "
    "repair_chunk_max superblock_wedged_fatal_timeout",
    "cluster.auth": "enabled shared_secret previous_shared_secret",
    "cluster.tls": _TLS,
    "cluster.coordinator": "skip_shard_zero_for_replicas skip_shard_zero_for_clients",
}

PLANNED: Final = frozenset(
    spelling
    for table, names in _NAMES.items()
    for name in names.split()
    for spelling in (f"{table}.{name}", f"{table}.{name}".removeprefix("system."))
)

_SOCKET: Final = "the system sizes the buffers of sockets, and nothing waits for more to send"

WITHOUT_EFFECT: Final[dict[str, str]] = {
    "tcp.ipv6": "an address of IPv6 in tcp.address does it",
    "tcp.socket_migration": "connections over plain TCP always move to the shard they work with",
    "tcp.tls.certificate": "PKCS12 is not read; write PEM files in tcp.tls.cert_file and key_file",
    "tcp.tls.password": "PKCS12 is not read; write PEM files in tcp.tls.cert_file and key_file",
    "system.segment.cache_time_indexes": "times lie beside offsets: system.segment.cache_indexes",
    "quic.datagram_send_buffer_size": "nothing is sent outside of streams",
    "websocket.read_buffer_size": "all clients of a shard share one buffer",
    "websocket.write_buffer_size": "replies are not gathered, each is written at once",
    "websocket.max_write_buffer_size": "replies that are not read are limited for all together",
    **{
        f"{table}.socket.{name}": _SOCKET
        for table in ("tcp", "quic")
        for name in (
            "override_defaults", "recv_buffer_size", "send_buffer_size", "keepalive", "nodelay",
            "linger",
        )
    },
}  # fmt: skip
"""Names that have nothing to act on here, and why: those of the original, or of its past."""

# Lists of tables: any variable that starts like this is an element of one.
PLANNED_LISTS: Final = ("cluster.nodes",)
PLANNED_VARIABLES: Final = frozenset({"IGGY_ENV_PATH"})

# Variables that are no settings: of the programs around the broker, or read elsewhere.
OTHER_VARIABLES: Final = frozenset(
    {
        "IGGY_ROOT_USERNAME",
        "IGGY_ROOT_PASSWORD",
        "IGGY_USERNAME",
        "IGGY_PASSWORD",
        "IGGY_CONFIG_PATH",
        "IGGY_CONFIG_STRICT",
        "IGGY_DISPLAY_CONFIG",
        "IGGY_SHARD_RUNTIME_CAPACITY",
        "IGGY_CI_BUILD",
    }
)


def asks_for_nothing(value: object) -> bool:
    """Whether a planned setting is just turned off, which is what the broker does anyway."""
    return value is False or (isinstance(value, str) and value.strip().lower() in ("false", ""))
