"""The web console in a window of a real Chromium."""

from __future__ import annotations

import json
from dataclasses import dataclass

from chromium import Browser

SECRET = "the secret that tokens of these tests are signed with"


@dataclass
class Console:
    """The console in a window."""

    browser: Browser
    home: str  # the address of the broker

    def open(self, place: str, token: str | None, *, expiry: int = 2**32) -> None:
        """Open a place like `/streams`, with the login of this token, or without."""
        session = {"token": token, "userId": 0, "expiry": expiry}
        self.browser.open(f"{self.home}/ping")  # of the same origin, and no console
        self.browser.run(
            "sessionStorage.clear(); localStorage.clear();"
            "if (arguments[0] !== null) sessionStorage.setItem('iggykube.session', arguments[0]);",
            None if token is None else json.dumps(session),
        )
        self.browser.open(f"{self.home}/ui#{place}")

    def go(self, place: str) -> None:
        """From one place to another, as a link does."""
        self.browser.run("location.hash = arguments[0]", place)
