"""Tokens of other issuers: which are good, and how often keys are fetched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from iggy_broker.config_issuers import TrustedIssuer
from iggy_broker.net.http import issuers
from iggy_broker.net.http.issuers import Good, Issuers, keys_of
from token_issuer import AUDIENCE, ISSUER, TokenIssuer

TRUSTED = TrustedIssuer(ISSUER, AUDIENCE, "https://login.example.com/keys", 7)
OTHER = TrustedIssuer(ISSUER, "another", "https://login.example.com/keys", 8)


class WallClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


class Place:
    """Where the keys are."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.asked = 0
        self.error: Exception | None = None

    async def fetch(self, url: str) -> bytes:
        assert url == TRUSTED.jwks_url
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.issuer.key_set()


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    made = TokenIssuer()
    made.ec("one")
    made.ec("large", ec.SECP384R1())
    made.rsa("old")
    return made


@pytest.fixture
def place(issuer: TokenIssuer) -> Place:
    return Place(issuer)


@pytest.fixture
def trusted(place: Place) -> Issuers:
    clock: Any = WallClock()
    return Issuers([TRUSTED, OTHER], skew_us=5_000_000, clock=clock, fetch=place.fetch)


def checked(trusted: Issuers, *tokens: str) -> list[int | None]:
    """Whom they act as."""

    async def run() -> list[Good | None]:
        return [await trusted.check(token) for token in tokens]

    return [one and one.user_id for one in asyncio.run(run())]


def test_good_tokens_act_as_the_user_of_their_audience(
    trusted: Issuers, issuer: TokenIssuer, place: Place
) -> None:
    tokens = [
        issuer.token("one"),
        issuer.token("large", "ES384"),
        *(issuer.token("old", f"RS{bits}") for bits in (256, 384, 512)),
        issuer.token("one", aud=["x", "another"]),
        issuer.token("one", exp=time.time() - 3, nbf=time.time() + 3),  # within the skew
    ]
    assert checked(trusted, *tokens) == [7, 7, 7, 7, 7, 8, 7]
    assert place.asked == 2, "once for each of the two"


BAD: dict[str, Callable[[TokenIssuer], str]] = {
    "issuer": lambda one: one.token("one", iss="https://else.example.com"),
    "audience": lambda one: one.token("one", aud="else"),
    "over": lambda one: one.token("one", exp=time.time() - 60),
    "not yet": lambda one: one.token("one", nbf=time.time() + 60),
    "no end": lambda one: one.token("one", exp=None),
    "end of time": lambda one: one.token("one", exp=1e300),
    "infinite": lambda one: one.token("one", exp=float("inf")),
    "signature": lambda one: one.token("one")[:-8] + "AAAAAAAA",
    "algorithm of another key": lambda one: one.token("one").replace("x", "y"),
    "none": lambda one: jwt.encode(
        {"iss": ISSUER, "aud": AUDIENCE, "exp": 1 << 40}, "", "none", headers={"kid": "one"}
    ),
    "a secret": lambda one: jwt.encode(
        {"iss": ISSUER, "aud": AUDIENCE, "exp": 1 << 40}, "x" * 32, headers={"kid": "one"}
    ),
    "PSS": lambda one: one.token("old", "PS256"),
    "no text": lambda one: "",
    "dots": lambda one: "..",
    "too long": lambda one: one.token("one", more="x" * 9000),
}


@pytest.mark.parametrize("what", list(BAD))
def test_bad_tokens_are_nobody(trusted: Issuers, issuer: TokenIssuer, what: str) -> None:
    assert checked(trusted, BAD[what](issuer)) == [None]


def run_timed(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[list[float]], Coroutine[Any, Any, None]]
) -> None:
    """With the loop's time in the first item of a list."""

    async def run() -> None:
        now_s = [1000.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s[0])
        await work(now_s)

    asyncio.run(run())


def test_an_unknown_key_makes_us_ask_again_but_not_often(
    trusted: Issuers, issuer: TokenIssuer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = TokenIssuer()
    stranger.ec("new")

    async def work(now_s: list[float]) -> None:
        many = [trusted.check(issuer.token("one")) for _ in range(20)]
        assert None not in await asyncio.gather(*many)
        assert place.asked == 1, "all wait for the one answer"
        for _ in range(20):
            assert await trusted.check(stranger.token("new")) is None
        assert place.asked == 1
        place.issuer = stranger  # it has changed its keys
        now_s[0] += issuers.AGAIN_S + 1
        assert await trusted.check(stranger.token("new")) is not None
        assert await trusted.check(issuer.token("one")) is None
        assert place.asked == 2

    run_timed(monkeypatch, work)


def test_keys_are_used_on_while_their_issuer_cannot_be_asked_for_a_day(
    trusted: Issuers, issuer: TokenIssuer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issuer.token("one", exp=time.time() + 60)

    async def work(now_s: list[float]) -> None:
        place.error = TimeoutError()
        assert await trusted.check(token) is None
        place.error = None
        now_s[0] += issuers.AGAIN_S + 1
        assert await trusted.check(token) is not None
        place.error = OSError("no way there")
        now_s[0] += issuers.KEYS_S + 1
        assert await trusted.check(token) is not None
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*tasks)
        assert place.asked == 3
        now_s[0] += issuers.KEPT_S
        assert await trusted.check(token) is None

    run_timed(monkeypatch, work)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"keys": 1}', b"\xff", b'{"keys": null}'])
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Key Set"):
        keys_of(data)


def test_keys_that_cannot_be_used_are_left_out(issuer: TokenIssuer) -> None:
    assert set(keys_of(issuer.key_set())) == {"one", "large", "old"}
    assert keys_of(issuer.key_set(use="enc")) == {}
    assert set(keys_of(issuer.key_set(x="AA"))) == {"old"}, "no points of their curves"
    assert keys_of(b'{"keys": [1, {}, {"kid": "a", "kty": "oct", "k": "AAAA"}]}') == {}
