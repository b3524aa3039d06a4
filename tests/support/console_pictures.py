"""The pictures in docs/console.md, taken from a real broker in a real Chromium.

.venv/bin/python tests/support/console_pictures.py      takes them anew
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_process import BrokerProcess, running_broker
from chromium import open_browser
from console_window import SECRET, Console
from http_client import TOPIC, HttpClient, http_client
from iggy_wire.primitives import Consumer

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
FLOW_S = 40.0  # how long messages flow before the charts are taken
SEND_EVERY_S = 0.05
CITIES = ("Lisbon", "Porto", "Faro", "Braga")


def fill(http: HttpClient) -> None:
    """A shop with orders, and others."""
    for name in ("shop", "sensors", "audit"):
        http.post("/streams", {"name": name})
    for name, partitions in (("orders", 4), ("payments", 2), ("returns", 1)):
        http.post("/streams/shop/topics", TOPIC | {"name": name, "partitions_count": partitions})
    for group in ("billing", "warehouse"):
        http.post("/streams/shop/topics/orders/consumer-groups", {"name": group})


def order(number: int) -> bytes:
    """One made-up order."""
    city = CITIES[number % len(CITIES)]
    items = [{"sku": f"A-{number % 17}", "count": 1 + number % 3}]
    return json.dumps({"order": number, "city": city, "items": items}).encode()


@contextmanager
def flow(broker: BrokerProcess) -> Iterator[None]:
    """Orders come in, more and less of them, and one group reads them; for a block."""
    is_over = threading.Event()

    def work() -> None:
        number = 0
        with http_client(broker) as http, broker.client() as member:
            member.join_group("shop", "orders", "billing")
            while not is_over.wait(SEND_EVERY_S):
                for partition in range(4):
                    many = 2 + (number // 200 + partition) % 5
                    payloads = [order(number + one) for one in range(many)]
                    number += many
                    end = http.send("/streams/shop/topics/orders", *payloads, partition=partition)
                    last = end["confirmations"][0]["base_offset"]
                    http.payloads(
                        "/streams/shop/topics/orders", f"partition_id={partition}&count=3"
                    )
                    group = Consumer.group("billing")
                    member.store_offset(group, "shop", "orders", partition, last)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        is_over.set()
        worker.join()


def take(console: Console, http: HttpClient, broker: BrokerProcess) -> None:
    """All pictures."""
    browser = console.browser
    topic = "/streams/0/topics/0"
    places = {
        "console-topic": (topic, "Topic orders"),
        "console-messages": (f"{topic}/messages?kind=offset&value=7&as=json", "Messages of orders"),
    }
    with flow(broker):
        console.open("/", http.token)
        time.sleep(FLOW_S)
        browser.picture(FOLDER / "console-overview.png")
        for name, (place, heading) in places.items():
            console.open(place, http.token)
            browser.expect_heading(heading)
            browser.wait(lambda: "…" not in browser.text() or None, "lag")
            browser.picture(FOLDER / f"{name}.png")
        browser.run("localStorage.setItem('iggykube.theme', 'dark')")
        browser.open(f"{console.home}/ui#/streams")
        browser.driver.refresh()
        browser.expect_heading("Streams")
        browser.click("sensors")
        browser.expect_heading("Stream sensors")
        browser.click("Delete")
        browser.fill("Type the name", "sens")
        browser.picture(FOLDER / "console-delete-dark.png")


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    settings = {"IGGY_HTTP_JWT_ENCODING_SECRET": SECRET}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_broker(Path(folder), transports=["http"], settings=settings) as broker,
        http_client(broker) as http,
        open_browser() as browser,
    ):
        fill(http)
        take(Console(browser, f"http://127.0.0.1:{broker.ports['http']}"), http, broker)
    return 0


if __name__ == "__main__":
    sys.exit(main())
