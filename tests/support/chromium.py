"""A real Chromium, headless, with what a person does in it: Debian's packages and their driver.

Chromium and its driver are of one version, since one package of Debian's builds both.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import (
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

WAIT_S = 15.0
LOOK_S = 0.03  # how often it is looked whether the page is as wanted
SIZE = (1100, 800)
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--lang=en", "--force-color-profile=srgb",
)  # fmt: skip
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_MISSING = "Chromium or its driver is not on this machine: apt-get install chromium chromium-driver"
_NAMED = "//{inside}//*[self::button or self::a][normalize-space()={name} or @aria-label={name}]"
_FIELD = (
    "//label[.//span[starts-with(normalize-space(), {label})]]"
    "//*[self::input or self::select or self::textarea]"
)
# The page is drawn anew, or something is before it: look again.
_SOON = ElementNotInteractableException, NoSuchElementException, StaleElementReferenceException
T = TypeVar("T")


class Browser:
    """One window."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.requested: list[str] = []  # addresses of all requests so far

    def open(self, address: str) -> None:
        self.driver.get(address)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, look: Callable[[], T | None], what: str) -> T:
        """What `look` finds, as soon as it does."""

        def found(_: Chrome) -> T | None:
            try:
                return look()
            except _SOON:
                return None

        told = WebDriverWait(self.driver, WAIT_S, poll_frequency=LOOK_S)
        result = told.until(found, f"no {what} on a page with:\n{self.text()}")
        assert result is not None
        return result

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def expect(self, *texts: str) -> None:
        """Wait until the page shows these."""
        for text in texts:
            self.wait(lambda text=text: text in self.text() or None, repr(text))  # type: ignore[misc]

    def expect_heading(self, text: str) -> None:
        """Wait until this is the page's title."""
        self.wait(lambda: self.all_texts("h1") == [text] or None, f"heading {text!r}")

    def click(self, name: str, *, inside: str = "body") -> None:
        """The button or link of this name, when it is there."""

        def done() -> bool | None:
            found = self._shown(_NAMED.format(inside=inside, name=_quoted(name)))
            if found is None or not found.is_enabled():
                return None
            found.click()
            return True

        self.wait(done, f"button or link {name!r}")

    def has(self, name: str, *, inside: str = "body") -> bool:
        """Whether there is a button or link of this name that can be used now."""
        found = self._shown(_NAMED.format(inside=inside, name=_quoted(name)))
        return found is not None and found.is_enabled()

    def field(self, label: str) -> WebElement:
        path = _FIELD.format(label=_quoted(label))
        return self.wait(lambda: self._shown(path), f"field {label!r}")

    def fill(self, label: str, text: str) -> None:
        def done() -> bool:
            field = self.field(label)
            field.clear()
            field.send_keys(text)
            return True

        self.wait(done, f"field {label!r}")

    def choose(self, label: str, option: str) -> None:
        Select(self.field(label)).select_by_visible_text(option)

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        """The text, or the label, of what has the focus."""
        return str(
            self.run(
                "const at = document.activeElement;"
                "return (at.labels?.[0] ?? at).innerText.trim() || at.getAttribute('aria-label');"
            )
        )

    def all_texts(self, css: str) -> list[str]:
        return [one.text for one in self.driver.find_elements(By.CSS_SELECTOR, css)]

    def requests(self) -> list[str]:
        """Addresses of all requests so far."""
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        return self.requested

    def complaints(self) -> list[str]:
        """What the console of the browser got since the last time, but answers with an error."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [one["message"] for one in entries if one["source"] != "network"]

    def picture(self, path: Path) -> None:
        assert self.driver.save_screenshot(str(path))

    def _shown(self, path: str) -> WebElement | None:
        found = self.driver.find_elements(By.XPATH, path)
        return next((one for one in found if one.is_displayed()), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A window for the length of a block, with a profile of its own."""
    if CHROMIUM is None or CHROMEDRIVER is None:
        if os.environ.get("CI") == "true":
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f"--window-size={SIZE[0]},{SIZE[1]}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(CHROMEDRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def _quoted(text: str) -> str:
    """A text in XPath, which has no escapes."""
    if "'" not in text:
        return f"'{text}'"
    assert '"' not in text, text
    return f'"{text}"'
