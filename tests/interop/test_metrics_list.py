"""/metrics in both formats: valid for a strict parser, and exactly what the documents list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from broker_process import BrokerProcess
from group_cases import GROUP, TOPIC, fill, make_topic, read
from http_client import HttpClient
from iggy_client import Client, ClientError
from iggy_wire.primitives import Consumer
from scraped import Scrape, fetch, scrape_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
UNITS = {"bytes": "bytes", "seconds": "seconds", "messages": "messages"}
OF_HISTOGRAMS = {"le"}
OF_THE_ORIGINAL = (
    "http_requests_total", "streams", "topics", "partitions", "segments", "messages", "users",
    "clients",
)  # fmt: skip


def documented() -> dict[str, tuple[str, str, str, str]]:
    """Type, unit, labels and meaning by name, from the table in the page."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]
    named = {row[0].strip("` "): (row[1], row[2], row[3], row[4]) for row in rows}
    assert len(named) == len(rows), "a metric is listed twice"
    return named


@pytest.fixture
def busy(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker of which every metric has a series."""
    with broker.client() as client:
        stream = make_topic(client, partitions=4, per_partition=5)
        client.join_group(stream, TOPIC, "g")
        assert read(client, stream, 0, auto_commit=True).count == 5
        client.store_offset(Consumer.plain(3), stream, TOPIC, 1, 2)
        with pytest.raises(ClientError):
            client.delete_offset(GROUP, stream, TOPIC, 1)
        with pytest.raises(ClientError):
            Client.connect(broker.address, "iggy", "wrong password")
        yield broker
        client.delete_stream(stream)


def test_the_list_is_the_documented_one(busy: BrokerProcess) -> None:
    found = Scrape(busy)

    listed = documented()
    names = {
        f"{name}_total" if family.type == "counter" else name: family
        for name, family in found.families.items()
    }
    assert sorted(names) == sorted(listed)
    for name, family in names.items():
        kind, unit, labels, meaning = listed[name]
        assert kind == family.type, name
        assert meaning == family.documentation, name
        words = name.removesuffix("_total").removesuffix("_max").split("_")
        assert unit == next((UNITS[word] for word in words[-1:] if word in UNITS), ""), name
        seen = {key for sample in family.samples for key in sample.labels} - OF_HISTOGRAMS
        if family.samples:
            assert ", ".join(f"`{key}`" for key in sorted(seen)) == labels, name


def test_both_formats_have_the_same_series(busy: BrokerProcess) -> None:
    plain, plain_type = fetch(busy)
    found = Scrape(busy)

    assert plain_type == "text/plain; version=0.0.4; charset=utf-8"
    assert found.kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name: family for family in parse_text(plain)}
    assert set(families) == set(found.families)
    for name, family in families.items():
        one, other = (
            {(sample.name, *sorted(sample.labels.items())) for sample in each.samples}
            for each in (family, found.families[name])
        )
        assert one == other, name
        assert (family.type, family.documentation) == (
            found.families[name].type,
            found.families[name].documentation,
        )


def test_http_serves_all_of_them_and_the_names_of_the_original(
    busy: BrokerProcess, http: HttpClient
) -> None:
    for accept in ("*/*", "application/openmetrics-text"):
        answer = http.ask("GET", "/metrics", headers={"Accept": accept})

        families = list(parse_open(answer.body.decode()))
        names = [f"{one.name}_total" if one.type == "counter" else one.name for one in families]
        ours = documented().keys() - {"iggy_http_requests_total"}  # of the monitoring listener
        assert sorted(names) == sorted([*ours, *OF_THE_ORIGINAL])


def test_names_have_their_suffix_once_and_help_and_type_come_once(busy: BrokerProcess) -> None:
    for accept, is_open in (("*/*", False), ("application/openmetrics-text", True)):
        text, _ = fetch(busy, accept=accept)
        assert text.endswith("# EOF\n") == is_open
        marks = Counter(tuple(line.split()[1:3]) for line in text.splitlines() if line[0] == "#")
        assert set(marks.values()) == {1}
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
        for name, kind in types.items():
            assert name.startswith("iggy_"), name
            assert not name.removesuffix("_total").endswith("_total"), name
            assert name.endswith("_total") == (kind == "counter" and not is_open), name
            assert not re.search(r"_(ms|us|kb|mb|minutes|hours)(_|$)", name), name
        samples = [line for line in text.splitlines() if line[0] != "#"]
        assert not [line for line in samples if "_total_total" in line]


def test_refusals_and_evictions_are_counted_by_what_they_are(broker: BrokerProcess) -> None:
    before = Scrape(broker)
    with broker.client() as client, pytest.raises(ClientError):
        client.create_topic("no such stream", "t", 1)
    with pytest.raises(ClientError):
        Client.connect(broker.address, "iggy", "wrong password")

    now = Scrape(broker)
    for name, labels in (
        ("iggy_refusals_total", {"code": "stream_id_not_found"}),
        ("iggy_evictions_total", {"reason": "invalid_credentials"}),
        ("iggy_logins_failed_total", {"method": "password"}),
    ):
        assert now.sum(name, **labels) == before.sum(name, **labels) + 1, name


def test_a_scrape_shows_what_all_shards_have_just_counted(broker: BrokerProcess) -> None:
    with broker.client() as client:
        stream = make_topic(client, partitions=4)
        before = Scrape(broker).sum("iggy_messages_received_total")
        for partition in range(4):
            for _ in range(3):
                read(client, stream, partition)
            fill(client, stream, partition, 3)
        assert Scrape(broker).sum("iggy_messages_received_total") == before + 12
        client.delete_stream(stream)


def test_names_that_need_escaping_come_out_whole(broker: BrokerProcess) -> None:
    name = 'a "quoted" \\ name\nof two lines, ümlaut'
    with broker.client() as client:
        client.create_stream(name)
        client.create_topic(name, "t", 2)
        found = Scrape(broker)
        assert found.value("iggy_topic_partitions", stream=name, topic="t") == 2
        client.delete_stream(name)
        assert Scrape(broker).value("iggy_topic_partitions", stream=name, topic="t") is None


def test_probes_are_counted_and_build_and_limits_are_told(broker: BrokerProcess) -> None:
    before = Scrape(broker).value("iggy_http_requests_total")
    found = Scrape(broker)

    assert before is not None
    assert found.value("iggy_http_requests_total") == before + 1
    ((build, one),) = found.series("iggy_build_info").items()
    assert one == 1
    told = dict(build)
    assert told["kernel"] in ("compiled", "python")
    assert told["protocol"] == "0.11.0 0.12.0 0.12.1 0.12.2"
    used = found.sum("iggy_disk_usage_bytes") + found.sum("iggy_disk_free_bytes")
    assert 0 < used <= found.sum("iggy_disk_total_bytes")
    assert found.sum("iggy_limit_bytes", of="buffers_in_use") == 512 * 1024 * 1024
    assert found.value("iggy_shards_silent") == 0


def test_the_loop_is_watched(broker: BrokerProcess) -> None:
    found = scrape_until(
        broker,
        lambda found: all(found.series("iggy_loop_lag_seconds_count").values()),
        "both shards have looked at their loop",
    )

    counts = found.series("iggy_loop_lag_seconds_count")
    assert len(counts) == 2
    assert found.series("iggy_loop_lag_seconds_sum").keys() == counts.keys()


def test_every_alert_is_of_documented_metrics_and_named_in_their_table() -> None:
    rows = PAGE.read_text().partition("<!-- alerts: begin -->")[2].partition("<!-- alerts: end -->")
    alerts = dict(re.findall(r"^\| ([^|]+?) \| `([^`]+)` \|", rows[0], re.MULTILINE))
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()[3:]
    cells = [[cell.strip(" `") for cell in line.split("|")] for line in table]
    named = {row[1]: row[6] for row in cells}

    assert len(alerts) == len(rows[0].strip().splitlines()) - 2
    for alert, expression in alerts.items():
        used = {name.removesuffix("_bucket") for name in re.findall(r"iggy_\w+", expression)}
        assert used <= named.keys(), alert
        assert all(named[name] == alert for name in used), alert
    assert set(named.values()) - {""} == set(alerts)
