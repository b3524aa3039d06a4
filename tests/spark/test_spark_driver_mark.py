"""Only tasks of the running driver write; the next driver waits for those of a dead one."""

import threading
from pathlib import Path

import pytest

from iggy_spark import driver_mark
from iggy_spark.errors import Fenced


def never() -> bool:
    return False


def begin_for_ever(folder: Path, mark: str) -> None:
    while True:
        with driver_mark.writing(folder, mark):
            pass


def test_a_task_of_an_earlier_driver_does_not_begin(tmp_path: Path) -> None:
    before = driver_mark.take_over(tmp_path, should_stop=never)
    now = driver_mark.take_over(tmp_path, should_stop=never)
    assert before is not None
    assert now is not None

    def write(mark: str) -> None:
        with driver_mark.writing(tmp_path, mark), driver_mark.writing(tmp_path, mark):
            wrote.append(mark)  # tasks run beside each other

    wrote: list[str] = []
    with pytest.raises(Fenced, match="another run has taken over"):
        write(before)
    write(now)
    assert wrote == [now]


def test_a_driver_waits_for_a_running_task_and_lets_none_begin(tmp_path: Path) -> None:
    before = driver_mark.take_over(tmp_path, should_stop=never)
    assert before is not None
    steps: list[str] = []

    def take_over() -> None:
        driver_mark.take_over(tmp_path, should_stop=never)
        steps.append("taken over")

    with driver_mark.writing(tmp_path, before):
        thread = threading.Thread(target=take_over)
        thread.start()
        with pytest.raises(Fenced):  # soon, while the other still waits
            begin_for_ever(tmp_path, before)
        steps.append("task is done")
    thread.join()

    assert steps == ["task is done", "taken over"]


def test_a_driver_gives_up_on_tasks_that_do_not_end_or_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_mark, "ORPHANS_S_MAX", 0.1)
    mark = driver_mark.take_over(tmp_path, should_stop=never)
    assert mark is not None

    with driver_mark.writing(tmp_path, mark):
        with pytest.raises(Fenced, match=r"still write after 0\.1 s: end its processes"):
            driver_mark.take_over(tmp_path, should_stop=never)
        assert driver_mark.take_over(tmp_path, should_stop=lambda: True) is None
