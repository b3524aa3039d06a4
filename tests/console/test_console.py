"""The console as people use it: a real broker, a real Chromium."""

from __future__ import annotations

import time

import jwt
import pytest
from selenium.webdriver.common.keys import Keys

from broker_process import PASSWORD, USERNAME, BrokerProcess
from console_window import SECRET, Console
from http_client import TOPIC, HttpClient
from iggy_wire.primitives import Consumer

EVIL = '<img src="x" onerror="window.broken = 1"><script>window.broken = 1</script>'
PLACES = ("", "/topics/{topic}", "/topics/{topic}/messages?kind=first", "/topics/{topic}/groups/0")
LARGE = 2**128 - 3
TABS_MAX = 40  # until something must have been reached


@pytest.fixture
def stream(http: HttpClient, request: pytest.FixtureRequest) -> str:
    """The path of a fresh stream with a topic `orders` of two partitions."""
    made = http.post("/streams", {"name": request.node.name})["id"]
    http.post(f"/streams/{made}/topics", TOPIC | {"name": "orders", "partitions_count": 2})
    return f"/streams/{made}"


def test_login_wrong_then_right_then_out(console: Console, http: HttpClient) -> None:
    browser = console.browser
    console.open("/streams", None)
    browser.expect_heading("Log in")
    browser.fill("Name", USERNAME)
    browser.fill("Password", "wrong")
    browser.click("Log in")
    browser.expect("Invalid credentials")
    browser.fill("Password", PASSWORD)
    browser.click("Log in")
    browser.expect_heading("Streams")
    browser.expect(USERNAME)
    token = browser.run("return JSON.parse(sessionStorage.getItem('iggykube.session')).token")
    http.token = token
    assert http.get("/users/me")["username"] == USERNAME

    browser.click("Log out")

    browser.expect_heading("Log in")
    assert browser.run("return sessionStorage.length") == 0
    assert http.ask("GET", "/users/me").status == 401


def test_login_with_a_personal_access_token(console: Console, http: HttpClient) -> None:
    token = http.post("/personal-access-tokens", {"name": "console", "expiry": 0})["token"]
    browser = console.browser
    console.open("/", None)
    browser.run("document.querySelector('summary').click()")
    browser.fill("Token", token)
    browser.click("Log in with the token")
    browser.expect_heading("Overview")


def test_create_send_browse_and_delete(console: Console, http: HttpClient) -> None:
    browser = console.browser
    console.open("/streams", http.token)
    browser.click("Create a stream")
    browser.fill("Name", "shop")
    browser.click("Create")
    browser.click("shop")
    browser.expect_heading("Stream shop")
    browser.click("Create a topic")
    browser.fill("Name", "orders")
    browser.fill("Partitions", "3")
    browser.click("Create")
    browser.click("orders")
    browser.expect_heading("Topic orders")
    browser.click("Send a message")
    browser.fill("Payload", '{"grüße": [1, {}]}')
    browser.choose("To", "partition 2")
    browser.click("Send")
    browser.click("Browse partition 2")
    browser.expect_heading("Messages of orders")
    browser.expect('{\n  "grüße": [\n    1,\n    {}\n  ]\n}')
    topic = http.get("/streams/shop/topics/orders")
    assert (topic["partitions_count"], topic["messages_count"]) == (3, 1)

    browser.click("orders")
    browser.expect_heading("Topic orders")
    browser.click("Delete partitions")
    browser.fill("Type the name", "orders")
    browser.click("Delete", inside="dialog")
    browser.wait(lambda: not browser.has("Browse partition 2") or None, "partition less")
    assert http.get("/streams/shop/topics/orders")["partitions_count"] == 2
    browser.click("Delete")
    browser.expect("Delete topic orders?")
    browser.fill("Type the name", "order")
    assert not browser.has("Delete", inside="dialog")
    browser.press("s")
    browser.click("Delete", inside="dialog")
    browser.expect_heading("Stream shop")
    browser.expect("This stream has no topics yet.")


def test_browse_as_text_json_and_hex_by_offset_and_time(
    console: Console, http: HttpClient, stream: str
) -> None:
    topic = f"{stream}/topics/orders"
    http.send(topic, b'{"id":12345678901234567890,"id":1}', b"plain", bytes([0, 255, 65]))
    while True:  # at least a millisecond later, which is as exact as the field for a time
        http.send(topic, b"late")
        *_, before, late = http.get(f"{topic}/messages?count=100")["messages"]
        if before["header"]["timestamp"] // 1000 < late["header"]["timestamp"] // 1000:
            break
    browser = console.browser
    console.open(f"{stream}/topics/0/messages?kind=offset&value=2", http.token)
    browser.expect("Offsets 2 to ")
    browser.choose("From", "an offset")
    browser.fill("Offset", "0")
    browser.choose("At most", "10 messages")
    browser.click("Show")
    browser.expect("Offsets 0 to ")
    browser.expect('"id": 12345678901234567890,\n  "id": 1', "00 ff 41", ".A", "not UTF-8")
    browser.choose("Shown as", "hex")
    browser.expect("70 6c 61 69 6e", "plain")
    browser.choose("Shown as", "text")
    browser.expect('{"id":12345678901234567890,"id":1}', "\ufffdA")
    browser.choose("Shown as", "JSON")
    browser.expect("no JSON")

    browser.choose("From", "a time")
    browser.run(
        "const local = new Date(arguments[1] - new Date().getTimezoneOffset() * 60000);"
        "arguments[0].value = local.toISOString().slice(0, 23);",
        browser.field("Time"),
        late["header"]["timestamp"] // 1000,
    )
    browser.click("Show")
    offset = late["header"]["offset"]
    browser.expect(f"Offsets {offset} to {offset}")
    assert browser.all_texts(".messages pre") == ["late"]
    browser.click("Older")
    browser.expect("Offsets 0 to ")


def test_large_numbers_headers_and_payloads(
    console: Console, http: HttpClient, stream: str
) -> None:
    body = {
        "partitioning": {"kind": "partition_id", "value": "AAAAAA=="},
        "messages": [
            {
                "payload": "eHh4" * 2000,
                "id": str(LARGE),
                "user_headers": [
                    {
                        "key": {"kind": "string", "value": "a2V5"},
                        "value": {"kind": "int64", "value": "/v///////38="},
                    }
                ],
            }
        ],
    }
    http.post(f"{stream}/topics/orders/messages", body)
    browser = console.browser
    console.open(f"{stream}/topics/0/messages", http.token)
    browser.expect(str(LARGE), "key", str(2**63 - 2), "the first 4,096 of 6,000 bytes")
    browser.click("Show all")
    browser.wait(lambda: browser.all_texts(".messages pre") == ["x" * 6000] or None, "all of it")


def test_lag_of_groups_goes_on_by_itself(
    console: Console, broker: BrokerProcess, http: HttpClient, stream: str
) -> None:
    topic = f"{stream}/topics/orders"
    http.post(f"{topic}/consumer-groups", {"name": "billing"})
    http.send(topic, *[b"order"] * 5, partition=1)
    browser = console.browser
    console.open(f"{stream}/topics/0", http.token)
    browser.wait(lambda: "5" in browser.all_texts("td output") or None, "lag of 5")
    browser.click("billing")
    browser.expect_heading("Group billing")
    browser.expect("Nobody is in this group")
    browser.wait(lambda: browser.all_texts("td output") == ["0", "5"] or None, "lag")
    with broker.client() as member:
        number = int(stream.rpartition("/")[2])
        member.join_group(number, "orders", "billing")
        browser.click("Reload")
        browser.expect("0, 1")
        member.store_offset(Consumer.group("billing"), number, "orders", 1, 3)
        browser.wait(lambda: browser.all_texts("td output") == ["0", "1"] or None, "less lag")
        browser.click("Clients")
        browser.expect("TCP", "127.0.0.1")


def test_charts_show_throughput_as_it_happens(
    console: Console, http: HttpClient, stream: str
) -> None:
    browser = console.browser
    console.open("/", http.token)
    browser.expect("Messages per second", "Free on the disk")

    def flowing() -> bool | None:
        http.send(f"{stream}/topics/orders", b"order")
        rates = browser.all_texts(".chart:first-child output")
        lines = browser.run("return document.querySelector('.line-0').getAttribute('d')")
        return (rates[0] not in ("…", "0") and "L" in lines) or None

    browser.wait(flowing, "line of messages that come in")


def test_what_anybody_wrote_stays_text(console: Console, http: HttpClient) -> None:
    stream = http.post("/streams", {"name": EVIL})["id"]
    topic = http.post(f"/streams/{stream}/topics", TOPIC | {"name": EVIL})["id"]
    http.post(f"/streams/{stream}/topics/{topic}/consumer-groups", {"name": EVIL})
    http.send(f"/streams/{stream}/topics/{topic}", EVIL.encode())
    browser = console.browser
    console.open("/streams", http.token)
    for place in ("/streams", *(f"/streams/{stream}{rest.format(topic=topic)}" for rest in PLACES)):
        console.go(place)
        browser.expect(EVIL)
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
        assert browser.run("return window.broken") is None
    browser.wait(lambda: browser.all_texts("td output") == ["1"] or None, "lag of a group so named")
    with pytest.raises(Exception, match="TrustedHTML"):
        browser.run("document.body.innerHTML = arguments[0]", EVIL)
    assert any("TrustedHTML" in one for one in browser.complaints()), "the policy holds"


def test_an_expired_token_leads_to_the_login_and_back(
    console: Console, http: HttpClient, stream: str
) -> None:
    now_s = int(time.time())
    claims = {
        "jti": "of-a-test", "sub": "0", "exp": now_s + 1,
        "iss": "iggy.apache.org", "aud": "iggy.apache.org",
    }  # fmt: skip
    token = jwt.encode(claims, SECRET, algorithm="HS256")
    browser = console.browser
    console.open(stream, token, expiry=now_s + 1)
    browser.expect_heading("Log in")  # by itself
    browser.expect("Your login has ended. Log in again.")
    browser.fill("Name", USERNAME)
    browser.fill("Password", PASSWORD)
    browser.click("Log in")
    browser.expect_heading("Stream test_an_expired_token_leads_to_the_login_and_back")


def test_who_may_nothing_is_told_kindly(console: Console, http: HttpClient) -> None:
    http.post("/users", {"username": "guest", "password": "guest-password", "status": "active"})
    user = http.log_in("guest", "guest-password").token
    browser = console.browser
    for place, seen in (("/streams", "You may not see this"), ("/", "You may not see the figures")):
        console.open(place, user)
        browser.expect(seen)


def test_users_are_created_and_deleted(console: Console, http: HttpClient) -> None:
    browser = console.browser
    console.open("/users", http.token)
    browser.click("Create a user")
    browser.fill("Name", "reader")
    browser.fill("Password", "x")
    browser.field("Read messages").click()
    browser.click("Create")
    browser.expect("Invalid password")  # the broker's reason, and the dialog stays
    browser.fill("Password", "reader-password")
    browser.click("Create")
    browser.click("reader")
    browser.expect_heading("User reader")
    browser.expect("Read messages")
    granted = http.get("/users/reader")["permissions"]["global"]
    assert [name for name, is_granted in granted.items() if is_granted] == ["poll_messages"]
    browser.click("Make inactive")
    browser.wait(lambda: browser.has("Make active") or None, "button to make it active")
    browser.click("Delete")
    browser.fill("Type the name", "reader")
    browser.click("Delete", inside="dialog")
    browser.expect_heading("Users")
    assert http.ask("GET", "/users/reader").status == 404


def test_keyboard_alone(console: Console, http: HttpClient) -> None:
    browser = console.browser

    def tab_to(name: str) -> None:
        for _ in range(TABS_MAX):
            browser.press(Keys.TAB)
            if browser.focused() == name:
                return
        raise AssertionError(f"{name!r} is not reached")

    console.open("/", None)
    browser.expect_heading("Log in")
    browser.press(USERNAME, Keys.TAB, PASSWORD, Keys.ENTER)
    browser.expect_heading("Overview")
    browser.run("document.activeElement.blur()")
    tab_to("Streams")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(Keys.ENTER)
    browser.expect_heading("Streams")
    tab_to("Create a stream")
    browser.press(Keys.ENTER)
    browser.expect("Name")
    browser.press("by-keys", Keys.ENTER)
    browser.wait(lambda: browser.has("by-keys") or None, "link to the new stream")
    tab_to("by-keys")
    browser.press(Keys.ENTER)
    browser.expect_heading("Stream by-keys")
    tab_to("Delete")
    browser.press(Keys.ENTER)
    browser.expect("Delete stream by-keys?")
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: browser.focused() == "Delete" or None, "focus where it was")
    browser.press(Keys.ENTER)
    browser.expect("Delete stream by-keys?")
    browser.press("by-keys", Keys.ENTER)
    browser.expect_heading("Streams")
    assert http.ask("GET", "/streams/by-keys").status == 404


def test_light_dark_and_the_choice(console: Console, http: HttpClient) -> None:
    browser = console.browser

    def is_dark() -> bool:
        color = browser.run("return getComputedStyle(document.body).backgroundColor")
        return int(color.removeprefix("rgb(").partition(",")[0]) < 128

    def system(scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    system("dark")
    console.open("/streams", http.token)
    browser.expect_heading("Streams")
    assert is_dark()
    browser.click("Theme: system")
    assert not is_dark()
    browser.driver.refresh()
    browser.click("Theme: light")
    assert is_dark()
    system("light")
    assert is_dark()
    browser.click("Theme: dark")
    assert not is_dark()


def test_nothing_is_cut_off_at_360_pixels(console: Console, http: HttpClient, stream: str) -> None:
    browser = console.browser
    http.send(f"{stream}/topics/orders", b"x" * 500)
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        console.open("/", http.token)
        for place, heading in (
            ("/", "Overview"),
            ("/users/0", "User iggy"),
            (stream, "Stream test_nothing_is_cut_off_at_360_pixels"),
            (f"{stream}/topics/0", "Topic orders"),
            (f"{stream}/topics/0/messages", "Messages of orders"),
        ):
            console.go(place)
            browser.expect_heading(heading)
            assert browser.run("return document.documentElement.scrollWidth") <= 360, place
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_long_lists_are_shown_by_pages(console: Console, http: HttpClient) -> None:
    for number in range(60):
        http.post("/streams", {"name": f"many-{number:02}"})
    browser = console.browser
    console.open("/streams", http.token)
    browser.expect_heading("Streams")
    filter_ = browser.driver.find_element("css selector", "[type=search]")
    filter_.send_keys("MANY-")
    browser.expect("1 to 50 of 60")
    browser.click("Next page")
    browser.expect("51 to 60 of 60", "many-59")
    assert not browser.has("Next page")
    filter_.send_keys("07")
    browser.expect("1 to 1 of 1")
