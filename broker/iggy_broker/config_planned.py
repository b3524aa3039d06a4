"""Names of settings that the broker knows and does not obey yet.

They are accepted, so that a file written for the original (or for a later IggyKube) starts here,
and each that asks for something is a warning. A name moves to `config_sections` with its code.
"""

from __future__ import annotations

from typing import Final

_TLS: Final = "enabled self_signed cert_file key_file ca_file"

_NAMES: Final[dict[str, str]] = {
    "tcp": "ipv6",
    "http": "web_ui",
    "websocket": "read_buffer_size write_buffer_size max_write_buffer_size",
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
    "system.segment": "cache_indexes cache_time_indexes preallocate server_confirmation",
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

# Lists of tables: any variable that starts like this is an element of one.
PLANNED_LISTS: Final = ("cluster.nodes", "http.jwt.trusted_issuers")
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
