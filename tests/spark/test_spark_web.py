"""Parts that the sinks of web services share: documents, requests, answers, logins."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.retry import TransientError
from iggy_spark.sinks.documents import Documents, field_values, refuse_raw
from iggy_spark.sinks.web import Place, Web, joined, retry_after_s
from iggy_spark.sinks.web_chunks import Refused, Run, runs, search
from iggy_spark.sinks.web_login import FileLogin, OAuth2Login, Tokens, basic
from played_server import LOST, SILENT, Reply
from played_targets import PlayedService, PlayedTokens
from sink_cases import TIMESTAMP_US, declare, document, portions, wanted
from tls_front import authority

TIME = "2026-12-31T23:59:59.999999Z"


def documents(
    payload: Payload, made: Callable[[int], bytes], *, position: bool = True
) -> list[str]:
    (portion,) = portions(wanted(7, 9, 3), payload=payload, made=made)
    assert portion.messages.timestamps_us[0] == TIMESTAMP_US
    return [text.decode() for text in Documents(payload, position=position).of(portion.rows)]


def test_columns_become_a_document_with_its_place() -> None:
    first, second = documents(declare(), document)

    assert json.loads(first) == {
        "number": 7,
        "month": 8,
        "customer": "c7",
        "amount": 7.25,
        "at": "2026-03-29T00:59:59.999999Z",
        "iggy_partition_id": 3,
        "iggy_offset": 7,
        "iggy_timestamp": TIME,
    }
    assert json.loads(second)["month"] is None


def test_types_are_written_as_they_are_told() -> None:
    schema = (
        "d DECIMAL(38,18), f DOUBLE, day DATE, plain TIMESTAMP_NTZ, b BINARY, "
        "list ARRAY<STRUCT<at: TIMESTAMP>>, map MAP<STRING, TIMESTAMP>, part STRUCT<x: INT>"
    )
    value = {
        "d": "12345678901234567890.123456789012345678",
        "f": 1.5,
        "day": "2026-12-31",
        "plain": "2026-12-31T10:00:00",
        "b": "AP8=",
        "list": [{"at": "2026-12-31T10:00:00+02:00"}, None],
        "map": {"k": "2026-12-31T10:00:00Z"},
    }

    text, _ = documents(
        declare(text=schema), lambda number: json.dumps(value).encode(), position=False
    )

    assert text == (
        '{"d":12345678901234567890.123456789012345678,"f":1.5,"day":"2026-12-31",'
        '"plain":"2026-12-31T10:00:00.000000","b":"AP8=",'
        '"list":[{"at":"2026-12-31T08:00:00.000000Z"},null],'
        '"map":{"k":"2026-12-31T10:00:00.000000Z"},"part":null}'
    )


def test_a_document_without_a_schema_stays_as_it_is() -> None:
    texts = [b' {"a" : 1.50,\r\n "big": 12345678901234567890123, "s": "x\\ny"} ', b"{ }"]
    made = lambda number: texts[number - 7]  # noqa: E731

    first, second = documents(declare(text=None), made)
    alone, _ = documents(declare(text=None), made, position=False)

    place = f'"iggy_partition_id":3,"iggy_offset":7,"iggy_timestamp":"{TIME}"'
    assert first == ('{"a" : 1.50,   "big": 12345678901234567890123, "s": "x\\ny",' + place + "}")
    assert second == "{" + place.replace("7", "8") + "}"
    assert json.loads(alone) == json.loads(texts[0])
    assert "\n" not in alone


def test_fields_with_our_names_give_way() -> None:
    (text, _) = documents(
        declare(text=None), lambda number: b'{"iggy_offset": 1, "iggy_x": 1.10, "a": "\\"iggy_"}'
    )

    assert text.count("iggy_offset") == 1
    assert text.startswith('{"iggy_x":1.10,"a":"\\"iggy_","iggy_partition_id":3,"iggy_offset":7')


def test_text_is_a_field() -> None:
    first, _ = documents(declare("Text", None), lambda number: b'say "hi"')

    assert json.loads(first)["value"] == 'say "hi"'


def test_bytes_are_no_document() -> None:
    with pytest.raises(OptionError, match=r"payload\.format: Raw: Quickwit takes JSON documents"):
        refuse_raw(declare("Raw", None), target="Quickwit")


def test_ids_are_texts_and_whole_numbers() -> None:
    values = ['"a"', "7", "1.5", "null", "true", "[1]"]
    made = lambda number: b'{"key": %s}' % values[number].encode()  # noqa: E731
    payload = declare(text=None)
    found = [
        value
        for portion in portions(wanted(0, 6), payload=payload, made=made)
        for value in field_values(payload, "key")(portion.rows)
    ]

    assert found == ["a", 7, None, None, None, None]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([4, 4, 4], [(0, 2), (2, 3)]),  # bytes
        ([1, 1, 1, 1], [(0, 3), (3, 4)]),  # rows
        ([99, 1, 99], [(0, 1), (1, 2), (2, 3)]),  # too large for any
    ],
)
def test_messages_are_cut_into_requests(sizes: list[int], expected: list[Run]) -> None:
    assert list(runs(sizes, bytes_max=10, rows_max=3)) == expected


@pytest.mark.parametrize("bad", [{0}, {99}, {50}, {37}, {3, 4, 77}, set(range(100)), set()])
def test_the_messages_that_are_not_wanted_are_found_by_halves(bad: set[int]) -> None:
    taken: list[int] = []
    refused: list[Run] = []

    def send(run: Run) -> Refused | None:
        if bad & set(range(*run)):
            refused.append(run)
            return Refused("Status400", "no")
        taken.extend(range(*run))
        return None

    found = [row for row, _ in search((0, 100), send)]

    assert found == sorted(bad)
    assert taken == sorted(set(range(100)) - bad)  # once, and in order
    if len(bad) == 1:
        assert len(refused) <= 8


def test_a_request_that_is_too_large_says_nothing_of_its_second_half() -> None:
    sent: list[Run] = []

    def send(run: Run) -> Refused | None:
        sent.append(run)
        too_large = run[1] - run[0] > 4
        return Refused("Status413", "too large", by_size=True) if too_large else None

    assert list(search((0, 8), send)) == []
    assert sent == [(0, 8), (0, 4), (4, 8)]


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        (None, None),
        ("7", 7.0),
        ("0", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 60.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("soon", None),
        ("-3", None),
    ],
)
def test_the_pause_that_a_service_asks_for(value: str | None, pause_s: float | None) -> None:
    assert retry_after_s(value, now_s=40.0) == pause_s


def test_a_path_goes_between_an_address_and_its_query() -> None:
    assert joined("http://es:9200", "/_bulk?x=1") == "http://es:9200/_bulk?x=1"
    assert joined("http://es/a/?k=v", "/_bulk?x=1") == "http://es/a/_bulk?k=v&x=1"
    assert joined("http://es/in?k=v", "") == "http://es/in?k=v"


def login(folder: Path, **files: str) -> str:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text + "\n")
    return str(folder)


def web(server: PlayedService, folder: str | None = None, **place: object) -> Web:
    known = FileLogin("http", folder, ("token", "username", "password", "apiKey"))
    return Web(Place("http", (server.url,), **place), known)  # type: ignore[arg-type]


def test_a_login_is_read_again_when_it_is_not_known_any_more(tmp_path: Path) -> None:
    folder = login(tmp_path / "login", token="old")
    with PlayedService() as server, web(server, folder) as client:
        server.login = "Bearer new"
        login(tmp_path / "login", token="new")
        json_type = {"Content-Type": "application/json"}

        answer = client.send("POST", body=b"{}", headers=json_type)

        assert answer.is_success
        assert [one.headers["Authorization"] for one in server.seen] == ["Bearer old", "Bearer new"]


def test_a_wrong_login_is_told_without_it(tmp_path: Path) -> None:
    folder = login(tmp_path / "login", username="me", password="hidden")
    with PlayedService() as server, web(server, folder) as client:
        server.faults.append(Reply(403, b"no: " + basic("me", "hidden").encode() + b" hidden"))

        with pytest.raises(SinkError, match=r"http\.credentialsPath: .* answers 403 .*\*\*\*") as e:
            client.send("POST")

    assert "hidden" not in str(e.value)
    assert basic("me", "hidden").split()[1] not in str(e.value)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"username": "me"}, "username and password"),
        ({"token": "t", "apiKey": "k"}, "several logins"),
    ],
)
def test_files_that_are_no_login(files: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"http\.credentialsPath: .*{words}"):
        FileLogin("http", login(tmp_path, **files), ("token", "username", "password", "apiKey"))


@pytest.mark.parametrize("fault", [Reply(503), Reply(408), Reply(425), Reply(429), LOST])
def test_what_is_only_now(fault: Reply | str) -> None:
    with PlayedService() as server, web(server) as client:
        server.faults.append(fault)

        with pytest.raises(TransientError):
            client.send("POST", headers={"Content-Type": "application/json"}, body=b"{}")


def test_a_service_that_does_not_answer_in_time() -> None:
    with PlayedService() as server, web(server, timeout_s=0.1) as client:
        server.faults.append(SILENT)

        with pytest.raises(TransientError, match="timed out"):
            client.send("POST")


def test_a_service_asks_for_a_pause() -> None:
    with PlayedService() as server, web(server) as client:
        server.faults.append(Reply(429, headers={"Retry-After": "7"}))

        with pytest.raises(TransientError) as error:
            client.send("POST")

    assert error.value.after_s == 7.0


def test_a_service_that_is_elsewhere() -> None:
    with PlayedService() as server, web(server) as client:
        server.faults.append(Reply(301, headers={"Location": "https://new.example/in?key=secret"}))

        with pytest.raises(SinkError, match=r"sends on to https://new\.example/in: write") as error:
            client.send("POST")

    assert "secret" not in str(error.value)


def test_another_node_is_asked_when_one_is_gone() -> None:
    with PlayedService() as gone:
        pass
    known = FileLogin("elasticsearch", None, ())
    with PlayedService() as ill, PlayedService() as well:
        ill.faults += [Reply(503)] * 9
        place = Place("elasticsearch", (gone.url, ill.url, well.url))
        with Web(place, known) as client:
            for _ in range(2):
                client.send("POST", headers={"Content-Type": "application/json"}, body=b"{}")

        assert len(ill.seen) == 1  # then the one that answered is kept
        assert len(well.messages) == 2


def test_a_certificate_of_an_own_authority(tmp_path: Path) -> None:
    import ssl

    made = authority(tmp_path / "server", "127.0.0.1")
    mine = authority(tmp_path / "client", "job")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(mine.certificate))
    context.load_cert_chain(made.certificate, made.key)
    context.verify_mode = ssl.CERT_REQUIRED
    ca = login(tmp_path / "ca", ca_crt=made.pem)
    folder = login(tmp_path / "login", tls_crt=mine.pem, tls_key=mine.key.read_text())

    with PlayedService(tls=context) as server:
        with web(server, ca_path=ca, client_path=folder) as client:
            client.send("GET")
        with web(server, client_path=folder) as client, pytest.raises(TransientError, match="CERT"):
            client.send("GET")
        with web(server, ca_path=ca) as client, pytest.raises(TransientError):
            client.send("GET")

    assert [one.client_certificate for one in server.seen] == [True]
    (tmp_path / "ca" / "ca.crt").write_text("nothing")
    with pytest.raises(OptionError, match=r"http\.caPath: .*ca\.crt cannot be used"):
        web(server, ca_path=ca)


class Clock:
    now_s = 0.0


def test_a_token_is_bought_once_and_again_before_it_ends(tmp_path: Path) -> None:
    folder = login(tmp_path / "login", clientId="job", clientSecret="hidden")
    clock = Clock()
    tokens = Tokens(clock=lambda: clock.now_s)
    json_type = {"Content-Type": "application/json"}
    with PlayedTokens(basic("job", "hidden"), life_s=100) as seller, PlayedService() as server:
        settings = blocks.OAuth2(token_url=seller.url + "/token", scope="write")
        for now_s in (0.0, 69.0, 71.0):
            clock.now_s = now_s
            known = OAuth2Login("http", folder, settings, tokens=tokens)
            with Web(Place("http", (server.url,)), known) as client:
                client.send("POST", headers=json_type, body=b"{}")

        assert seller.given == 2
        assert seller.scope == ["write"]
        used = [one.headers["Authorization"] for one in server.seen]
        assert used == ["Bearer t1", "Bearer t1", "Bearer t2"]

        server.login = "Bearer t3"  # the service has forgotten t2
        with Web(Place("http", (server.url,)), known) as client:
            assert client.send("POST", headers=json_type, body=b"{}").is_success


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Reply(401), SinkError, r"http\.credentialsPath: .*correct clientId"),
        (Reply(503), TransientError, "hands out no token"),
        (Reply(200, b"<html>"), SinkError, "no token"),
    ],
)
def test_a_token_that_cannot_be_had(
    fault: Reply, kind: type[Exception], words: str, tmp_path: Path
) -> None:
    folder = login(tmp_path / "login", clientId="job", clientSecret="hidden")
    with PlayedTokens(basic("job", "hidden")) as seller, PlayedService() as server:
        seller.faults.append(fault)
        settings = blocks.OAuth2(token_url=seller.url)
        known = OAuth2Login("http", folder, settings, tokens=Tokens())
        with Web(Place("http", (server.url,)), known) as client, pytest.raises(kind, match=words):
            client.send("POST")

    with pytest.raises(OptionError, match=r"http\.credentialsPath: oauth2 needs"):
        OAuth2Login("http", None, settings)


def test_numbers_that_json_has_not_are_null() -> None:
    import pyarrow as pa

    rows = pa.RecordBatch.from_pydict({"x": [math.nan, math.inf, 1.0]})

    made = Documents(declare(), position=False).of(rows)

    assert made == [b'{"x":null}', b'{"x":null}', b'{"x":1.0}']
