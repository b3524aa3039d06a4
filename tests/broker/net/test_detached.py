"""Sessions without a connection: for how long they are kept, and for whom."""

import pytest

from iggy_broker.net import detached
from iggy_broker.net.detached import Detached, is_bound_by
from iggy_broker.net.session import Session
from iggy_wire.dialect import P12_2

SECRET = bytes(range(32))


def session(number: int) -> Session:
    made = Session(client_number=number, address="")
    made.bind(client=bytes(15) + bytes((number,)), number=number, user_id=0, dialect=P12_2,
              bind_secret=SECRET)  # fmt: skip
    return made


def test_a_session_is_over_after_its_steps() -> None:
    ended: list[int] = []
    kept = Detached(steps_max=2, on_ended=lambda one: ended.append(one.number))
    first, second, bound = session(1), session(2), session(3)
    kept.keep(first)
    kept.keep(bound)
    kept.step()
    kept.keep(second)
    assert kept.find(bound.client) is bound
    kept.take(bound.client)

    kept.step()
    assert ended == []
    kept.step()
    assert ended == [1]
    assert kept.find(first.client) is None
    kept.end_where(lambda one: one.number == 2)
    assert ended == [1, 2]


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "SESSIONS_MAX", 2)
    ended: list[int] = []
    kept = Detached(steps_max=2, on_ended=lambda one: ended.append(one.number))

    for number in (1, 2, 3):
        kept.keep(session(number))

    assert ended == [1]


def test_who_knows_the_secret_may_go_on() -> None:
    kept = session(5)

    assert is_bound_by(kept, 5, SECRET)
    assert is_bound_by(kept, 0, SECRET)
    assert not is_bound_by(kept, 6, SECRET)
    assert not is_bound_by(kept, 5, bytes(32))
    without = Session(client_number=1, address="")
    assert not is_bound_by(without, 0, b"")
