"""The table of the benchmark and where it goes."""

import dataclasses
from pathlib import Path

import msgspec

from iggy_bench import main as bench
from iggy_bench.report import Machine, Report, Row, machine_facts, percentile

MACHINE = Machine(
    cpu="a processor",
    cores=2,
    memory_gb=24.0,
    kernel="6.0",
    python="3.11.7",
    file_system="ext4",
    load_average_before=0.5,
    compiled_kernel=True,
    commit="abc",
)
ROW = Row(what="send", ours="0.3 s/GB", baseline="bare 0.25 s/GB", ratio=1.2, aim="≤ 1.4", met=True)


def test_the_table_says_what_is_met_and_where_it_was_measured() -> None:
    missed = Row("read", "1 s", "", None, "< 1 s", met=False, note="why")

    text = Report(MACHINE, [ROW, missed]).markdown()

    assert "| send | 0.3 s/GB | bare 0.25 s/GB | 1.20 | ≤ 1.4 | met |" in text
    assert "| read (why) | 1 s |  |  | < 1 s | **not met** |" in text
    assert "a processor, 2 cores, 24 GB" in text


def test_clocks_are_not_believed_on_a_busy_machine() -> None:
    busy = dataclasses.replace(MACHINE, load_average_before=3.0)
    slow = Row("open", "4 s", "", None, "< 1 s", met=False, by_clock=True)

    assert "**not met**" in Report(MACHINE, [slow]).markdown()
    assert "not judged: busy machine" in Report(busy, [slow]).markdown()
    assert "| met |" in Report(busy, [ROW]).markdown()


def test_publishing_replaces_the_old_table(tmp_path: Path, monkeypatch) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n")
    monkeypatch.setattr(bench, "PAGE", page)
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results")
    report = Report(MACHINE, [ROW])

    bench.publish(report)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"\n{bench.END}\nafter\n")
    assert "old" not in text
    (kept,) = (tmp_path / "results").iterdir()
    assert msgspec.json.decode(kept.read_bytes())["rows"][0]["what"] == "send"


def test_percentiles() -> None:
    values = [float(value) for value in range(100)]

    assert (percentile(values, 50), percentile(values, 99), percentile([1.0], 99)) == (50, 99, 1)


def test_facts_of_this_machine(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)

    assert facts.cores >= 1
    assert facts.memory_gb > 0
    assert facts.file_system
