"""The metrics of the whole broker, made for one scrape by shard 0.

Everything that belongs to a stream, topic, group or partition is read anew from the metadata and
the partition table, so nothing of a deleted one can stay. Each kind has a limit of series; beyond
it things count in the totals and maxima only, and `iggy_series_omitted` says how many.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from iggy_broker import __version__
from iggy_broker.metrics import DISTRIBUTIONS, FIELDS, TALLIES, SharedCounters
from iggy_broker.metrics_text import Family, Sample, histogram, labels, single
from iggy_broker.net.buffers import IN_USE_BYTES_MAX, KEPT_BYTES_MAX
from iggy_broker.net.peers import IN_FLIGHT_BYTES_MAX, QUEUED_BYTES_MAX
from iggy_broker.net.unsent import UNSENT_BYTES_MAX
from iggy_broker.storage.index_cache import INDEX_CACHE_BYTES_MAX
from iggy_wire import kernel
from iggy_wire.dialect import SERVED

if TYPE_CHECKING:
    from iggy_broker.net.context import Services

_INTERNAL: Final = frozenset({"drained", "archiver_checked"})
_MICRO: Final = 1_000_000

LIMITS_BYTES: Final[Mapping[str, int]] = {
    "buffers_in_use": IN_USE_BYTES_MAX,
    "buffers_kept": KEPT_BYTES_MAX,
    "link_in_flight": IN_FLIGHT_BYTES_MAX,
    "link_queued": QUEUED_BYTES_MAX,
    "unread_replies": UNSENT_BYTES_MAX,
    "index_cache": INDEX_CACHE_BYTES_MAX,
}


def of_shards(shared: SharedCounters) -> Iterator[Family]:
    """What the shards count: with a label `shard`, or summed up by a label of its own."""
    for name, (kind, description) in FIELDS.items():
        if name in _INTERNAL:
            continue
        scale = _MICRO if name.removesuffix("_total").endswith("_seconds") else 1
        values = shared.values(name)
        samples: list[Sample] = [
            ("", labels(shard=shard), value / scale if scale > 1 else value)
            for shard, value in enumerate(values)
        ]
        yield Family(f"iggy_{name}", kind, description, samples)
    for name, tally in TALLIES.items():
        counts = shared.tallied(name).items()
        counted: list[Sample] = [("", labels(**{tally.label: key}), count) for key, count in counts]
        yield Family(f"iggy_{name}", tally.kind, tally.description, counted)
    for name, distribution in DISTRIBUTIONS.items():
        series: list[Sample] = []
        for shard in range(shared.shards_count):
            buckets, sum_us = shared.spread(name, shard)
            total_s = sum_us / _MICRO
            series += histogram(distribution.bounds_s, buckets, total_s, labels(shard=shard))
        yield Family(f"iggy_{name}", "histogram", distribution.description, series)


def of_metadata(services: Services) -> Iterator[Family]:
    """The journal, users and tokens."""
    replica, now_us = services.replica, services.clock.now_us()
    state, journal = replica.state, replica.journal_figures
    tokens = sum(len(user.tokens) for user in state.users.values())
    yield single("iggy_users", "gauge", "Users.", len(state.users))
    yield single("iggy_tokens", "gauge", "Personal access tokens.", tokens)
    name = "iggy_metadata_changes_total"
    yield single(name, "counter", "Changes of metadata since the data directory is new.", state.op)
    name = "iggy_metadata_changes_waiting"
    yield single(name, "gauge", "Changes that wait for the journal.", journal.waiting)
    name = "iggy_metadata_journal_size_bytes"
    yield single(name, "gauge", "Size of the journal since its last snapshot.", journal.size_bytes)
    name = "iggy_metadata_journal_entries"
    yield single(name, "gauge", "Changes in the journal.", journal.entries)
    age_us = max(0, now_us - journal.oldest_us) if journal.entries else 0
    name = "iggy_metadata_journal_age_seconds"
    yield single(name, "gauge", "Age of the oldest change in the journal.", age_us / _MICRO)


def of_broker(services: Services, silent: int) -> Iterator[Family]:
    """Build, limits, age."""
    build = labels(
        version=__version__,
        python=platform.python_version(),
        protocol=SERVED,
        kernel="compiled" if kernel.COMPILED else "python",
    )
    name = "iggy_build_info"
    yield Family(name, "gauge", "What runs here; the value is always 1.", [("", build, 1)])
    limits: list[Sample] = [("", labels(of=of), size) for of, size in LIMITS_BYTES.items()]
    description = "Limits of memory: most that each shard, or link, has of it."
    yield Family("iggy_limit_bytes", "gauge", description, limits)
    age_us = max(0, services.clock.now_us() - services.started_at_us)
    yield single("iggy_uptime_seconds", "gauge", "Age of the broker.", age_us / _MICRO)
    sessions = services.counters.shared.total("sessions")
    yield single("iggy_clients", "gauge", "Logged-in clients.", sessions)
    yield single("iggy_shards", "gauge", "Shards of the broker.", services.shards_count)
    name = "iggy_shards_silent"
    yield single(name, "gauge", "Shards that did not answer this scrape in time.", silent)


def of_certificates(services: Services) -> Iterator[Family]:
    """Those of the listeners that have TLS."""
    listeners = services.certificates.items()
    ends: list[Sample] = [
        ("", labels(listener=name), one.facts.expires_s) for name, one in listeners
    ]
    description = "When the certificate of a listener ends, in seconds since 1970."
    yield Family("iggy_certificate_expires_seconds", "gauge", description, ends)
    looks: list[Sample] = [
        ("", labels(listener=name, result=result), count)
        for name, one in listeners
        for result, count in (("loaded", one.reloads), ("refused", one.refusals))
    ]
    description = "Changed files of certificates, taken or not fit for use."
    yield Family("iggy_certificate_reloads_total", "counter", description, looks)


def of_disk(usage: tuple[int, int, int] | None) -> Iterator[Family]:
    """Total, used and free bytes of the volume; no samples while the disk does not answer."""
    for place, name in enumerate(("total", "usage", "free")):
        description = f"{name.capitalize()} bytes of the volume of the data directory."
        samples: list[Sample] = [] if usage is None else [("", "", usage[place])]
        yield Family(f"iggy_disk_{name}_bytes", "gauge", description, samples)
