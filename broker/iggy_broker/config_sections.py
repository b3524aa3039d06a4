"""Every setting of the broker, once: meaning, unit, default, and why that default.

`config.load` reads them, `config_values` knows how they are written, `config_keys` how they are
declared. A setting is listed here when something in the broker obeys it; names that are promised
but obeyed by nothing yet are in `config_planned`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from iggy_broker import config_values as values
from iggy_broker.config_data import (
    Encryption,
    PartitionDefaults,
    Recovery,
    SegmentDefaults,
    TopicDefaults,
    flag,
)
from iggy_broker.config_deduplication import MessageDeduplication
from iggy_broker.config_http import Http
from iggy_broker.config_keys import Key, Section, Setting, keys_of
from iggy_broker.config_maintenance import DataMaintenance
from iggy_broker.config_transports import Quic, Tls, WebSocketSettings
from iggy_broker.config_values import SECOND_US, Address, Secret

SHARDS_MAX: Final = 64  # a socket pair for every pair of shards


class Tcp(Section, frozen=True):
    """The binary protocol over TCP."""

    enabled: Annotated[
        bool,
        flag("Listen for the binary protocol; every client needs it."),
    ] = True
    address: Annotated[
        Address,
        Setting(
            values.address,
            "Where to listen, host:port; port 0 lets the system pick. Loopback until you decide "
            "otherwise.",
        ),
    ] = Address("127.0.0.1", 8090)
    advertised_address: Annotated[
        str,
        Setting(
            values.reachable,
            "HOST or HOST:PORT that clients are told in the cluster's metadata, where they reach "
            "this node by another name than it listens on.",
        ),
    ] = ""
    tls: Tls = Tls()


class Monitoring(Section, frozen=True):
    """The read-only listener for probes and Prometheus: no login, no message data."""

    enabled: Annotated[
        bool,
        flag("Serve /ping, /ready and /metrics; on, because probes need it.", "metrics.enabled"),
    ] = True
    address: Annotated[
        Address,
        Setting(
            values.address,
            "Where to serve them, host:port; port 0 lets the system pick.",
            aliases=("metrics.endpoint",),
        ),
    ] = Address("127.0.0.1", 9099)


class MessageBus(Section, frozen=True):
    """Limits of one frame."""

    max_message_size_bytes: Annotated[
        int,
        Setting(
            values.frame_size,
            "Largest frame a client may send, header included; a larger one ends the connection. "
            "Official clients stop at 64 MiB.",
            name="max_message_size",
            show=values.show_size,
        ),
    ] = 64 << 20


class Metadata(Section, frozen=True):
    """The journal of streams, topics, partitions, groups and users."""

    journal_slots: Annotated[
        int,
        Setting(
            values.whole(16, 1 << 20),
            "Changes kept in the journal before it is folded into a snapshot. Few enough to replay "
            "in milliseconds.",
        ),
    ] = 1024


class Sharding(Section, frozen=True):
    """Processes: one per core, each owns its partitions."""

    cpu_allocation: Annotated[
        str,
        Setting(
            values.cpu_allocation,
            "How many shards: a number, a range of cores like 0..4, or all (one per core that this "
            "process may use, within the limit of its container). numa:... is read as all.",
        ),
    ] = "all"
    shutdown_drain_timeout_us: Annotated[
        int,
        Setting(
            values.duration,
            "How long a stop waits for requests in flight. Shorter than the 30 s that Kubernetes "
            "gives a pod.",
            name="shutdown_drain_timeout",
            show=values.show_duration,
        ),
    ] = 10 * SECOND_US


class Heartbeat(Section, frozen=True):
    """Silent clients. Only members of consumer groups are sent away: others are in nobody's way."""

    enabled: Annotated[
        bool,
        flag("Send away silent members, so that their partitions go to the others of the group."),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "How often a client should be heard; after 1.2 times this it is silent. Official "
            "clients ping every 5 s.",
            name="interval",
            show=values.show_duration,
        ),
    ] = 30 * SECOND_US


class ConsumerGroups(Section, frozen=True):
    """How partitions move between the members of a group."""

    rebalancing_timeout_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "How long a partition waits for its owner to commit what it has polled before it goes "
            "to the next owner anyway, who then reads those messages again.",
            name="rebalancing_timeout",
            show=values.show_duration,
        ),
    ] = 30 * SECOND_US


class TokenCleaner(Section, frozen=True):
    """The removal of expired tokens."""

    enabled: Annotated[
        bool,
        flag("Remove them. An expired token logs nobody in, removed or not."),
    ] = True
    interval_us: Annotated[
        int,
        Setting(
            values.positive_duration,
            "Pause between two looks for expired tokens.",
            name="interval",
            show=values.show_duration,
        ),
    ] = 60 * SECOND_US


class PersonalAccessTokens(Section, frozen=True):
    """Tokens that users log in with in place of their password."""

    max_tokens_per_user: Annotated[
        int,
        Setting(values.whole(1, 10_000), "Tokens that one user may have at a time."),
    ] = 100
    cleaner: TokenCleaner = TokenCleaner()


class Logging(Section, frozen=True):
    """Logs: one JSON object a line on standard error."""

    level: Annotated[
        str,
        Setting(
            values.choice("trace", "debug", "info", "warn", "warning", "error"),
            "Least level that is written; info is a line per start, stop and trouble.",
        ),
    ] = "info"


class System(Section, frozen=True):
    """Data and processes."""

    path: Annotated[
        Path, Setting(values.path, "Root of all data; relative to the working directory.")
    ] = Path("local_data")
    logging: Logging = Logging()
    sharding: Sharding = Sharding()
    partition: PartitionDefaults = PartitionDefaults()
    segment: SegmentDefaults = SegmentDefaults()
    recovery: Recovery = Recovery()
    encryption: Encryption = Encryption()
    topic: TopicDefaults = TopicDefaults()
    message_deduplication: MessageDeduplication = MessageDeduplication()


class Root(Section, frozen=True):
    """The first user. Only from the environment, only used when the data directory is new."""

    username: str = "iggy"
    password: Secret = Secret()  # empty: make a random one and show it once


class Config(Section, frozen=True):
    """All settings."""

    tcp: Tcp = Tcp()
    quic: Quic = Quic()
    websocket: WebSocketSettings = WebSocketSettings()
    http: Http = Http()
    monitoring: Monitoring = Monitoring()
    message_bus: MessageBus = MessageBus()
    metadata: Metadata = Metadata()
    heartbeat: Heartbeat = Heartbeat()
    consumer_group: ConsumerGroups = ConsumerGroups()
    personal_access_token: PersonalAccessTokens = PersonalAccessTokens()
    data_maintenance: DataMaintenance = DataMaintenance()
    system: System = System()
    root: Root = Root()

    @property
    def problem(self) -> str:
        """What is wrong with settings together; empty if nothing is."""
        return (
            self.data_maintenance.archiver.problem
            or self.system.encryption.problem
            or self.websocket.problem(self.message_bus.max_message_size_bytes)
            or self.http.problem
            or self.quic.problem
        )

    def shards_count(self, cores: int) -> int:
        """How many shards to run when this process may use `cores` cores."""
        wanted = values.cores_wanted(self.system.sharding.cpu_allocation)
        return max(1, min(wanted or cores, SHARDS_MAX))


KEYS: Final[tuple[Key, ...]] = tuple(keys_of(Config))
