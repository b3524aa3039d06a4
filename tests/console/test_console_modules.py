"""Modules of the console by themselves, in a real Chromium: exact numbers, metrics, payloads."""

from __future__ import annotations

from typing import Any

import pytest

from console_window import Console
from http_client import HttpClient

# Each case: a module, an expression of what it exports, and what that must be.
CASES: dict[str, tuple[str, str, Any]] = {
    "numbers-above-2^53": (
        "json.js",
        """(() => { const { a, b, c } = m.parseExact('{"a":18446744073709551615,"b":7,"c":1.5}');
        return [String(a), typeof a, b, c]; })()""",
        ["18446744073709551615", "bigint", 7, 1.5],
    ),
    "layout-keeps-what-was-written": (
        "json.js",
        r"""m.laidOut('{"a":1e400,"a":[],"b\\"{":[true,{"c":null}]}')""",
        '{\n  "a": 1e400,\n  "a": [],\n  "b\\"{": [\n    true,\n    {\n      "c": null\n    }\n'
        "  ]\n}",
    ),
    "layout-of-a-plain-value": ("json.js", """m.laidOut(' "{,}" ')""", '"{,}"'),
    "no-layout": ("json.js", """m.laidOut('{"a":')""", None),
    "deep": ("json.js", "m.laidOut('['.repeat(500) + ']'.repeat(500)).length", 1000),
    "metrics": (
        "metrics.js",
        r"""m.parsed('# TYPE a gauge\na{x="1,}\\"\\n",y="\\\\"} 3\nab 4\na 5\n', ['a'])""",
        [
            {"name": "a", "labels": {"x": '1,}"\n', "y": "\\"}, "value": "3"},
            {"name": "a", "labels": {}, "value": "5"},
        ],
    ),
    "hex": (
        "payload.js",
        "m.hex(new Uint8Array([...Array(17).keys()].map((one) => one + 60)))",
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK\n"
        "00000010  4c                                               L",
    ),
    "cut-between-letters": ("payload.js", "m.cut(new TextEncoder().encode('aéé'), 4).length", 3),
    "cut-of-no-text": ("payload.js", "m.cut(new Uint8Array(9).fill(128), 4).length", 1),
    "header-int128": (
        "payload.js",
        "m.headerText({ kind: 'int128', value: '/////////////////////w==' })",
        "-1",
    ),
    "header-raw": ("payload.js", "m.headerText({ kind: 'raw', value: '/wA=' })", "ff 00"),
    "large-number": ("format.js", "m.whole(18446744073709551615n)", "18,446,744,073,709,551,615"),
    "rates": (
        "format.js",
        "[0, 0.5, 999, 1234, 1.5e9].map(m.short)",
        ["0", "0.5", "999", "1.23 k", "1.50 G"],
    ),
    "size": (
        "format.js",
        "['0 B', '53228280 KiB', '8.136 KB'].map(m.size)",
        ["0 B", "54.5 GB", "8.14 kB"],
    ),
    "durations": (
        "format.js",
        "[0, 18446744073709551615n, 90_061_000_000].map(m.duration)",
        ["0 s", "never", "1 d 1 h"],
    ),
    "rates-of-counters": (
        "throughput.js",
        """(() => { const t = new m.Throughput(['a']);
        for (const [at, a] of [[0, 10], [2, 30], [4, 0], [5, 3], [60, 9]]) t.add(at, { a });
        return t.points.map((one) => one.rates); })()""",
        [{"a": 10}, None, {"a": 3}, None],
    ),
}  # fmt: skip
# The expression is part of the script: the console's policy has no way from text to code.
IMPORT = """
const [name, done] = arguments;
const folder = document.querySelector("script[type=module]").src.replace("main.js", "");
import(folder + name).then((m) => EXPRESSION).then(done, (error) => done(String(error)));
"""
# Rounds are counted, not timed: only a poller that goes on while hidden could fail this.
POLLING = """
const done = arguments[0];
const folder = document.querySelector("script[type=module]").src.replace("main.js", "");
const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
const hide = (value) => {
  Object.defineProperty(document, "hidden", { value, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};
(async () => {
  const { every } = await import(folder + "poller.js");
  const stop = new AbortController();
  let rounds = 0;
  every(1, stop.signal, async () => { rounds += 1; });
  while (rounds < 3) await turn();
  hide(true);
  await turn();
  const hidden = rounds;
  for (let one = 0; one < 20; one += 1) await turn();
  const paused = rounds === hidden;
  hide(false);
  while (rounds < hidden + 3) await turn();
  stop.abort();
  const stopped = rounds;
  for (let one = 0; one < 5; one += 1) await turn();
  return [paused, rounds === stopped];
})().then(done, (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest) -> Console:
    """Some page of the console, for all of these."""
    console = Console(request.getfixturevalue("browser"), request.getfixturevalue("home"))
    console.open("/", None)
    return console


@pytest.mark.parametrize("case", CASES)
def test_module(opened: Console, case: str) -> None:
    name, expression, expected = CASES[case]

    script = IMPORT.replace("EXPRESSION", expression)
    assert opened.browser.driver.execute_async_script(script, name) == expected


def test_polling_pauses_while_nobody_looks(opened: Console, http: HttpClient) -> None:
    opened.open("/streams", http.token)

    assert opened.browser.driver.execute_async_script(POLLING) == [True, True]
