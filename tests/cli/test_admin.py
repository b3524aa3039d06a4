"""Commands on what a broker has, towards a real one, as tables and as JSON."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from cli_program import clean_environment, run_program
from iggy_client.client import Client, Message
from iggy_wire.primitives import Consumer, Partitioning
from iggykube.__main__ import run
from iggykube.admin import frame


class Admin:
    """The command line in this process, logged in as root."""

    def __init__(self, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker, self.capsys = broker, capsys

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code and what was printed."""
        code = run([*map(str, arguments), "--servers", self.broker.address])
        told = self.capsys.readouterr()
        return code, told.out, told.err

    def text(self, *arguments: str | Path) -> str:
        code, out, err = self.run(*arguments)
        assert (code, err) == (0, "")
        return out

    def json(self, *arguments: str | Path) -> Any:
        return json.loads(self.text(*arguments, "--output", "json"))

    def refused(self, *arguments: str | Path) -> tuple[int, str]:
        """Exit code and the line that says why."""
        code, out, err = self.run(*arguments)
        assert code != 0
        assert out == ""
        return code, err


@pytest.fixture
def admin(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Admin:
    monkeypatch.setenv("IGGY_USERNAME", USERNAME)
    monkeypatch.setenv("IGGY_PASSWORD", PASSWORD)
    return Admin(broker, capsys)


@pytest.fixture
def client(broker: BrokerProcess) -> Any:
    with broker.client() as client:
        yield client


def test_a_stream_from_its_beginning_to_its_end(admin: Admin, client: Client) -> None:
    made = admin.json("stream", "create", "first")
    assert made["name"] == "first"
    assert admin.text("stream", "rename", "first", "shop") == "stream first is named shop now\n"
    client.create_topic("shop", "orders", 1)
    client.send("shop", "orders", Partitioning.partition(0), [Message(b"x")] * 3)
    (row,) = [one for one in admin.json("stream", "list")["streams"] if one["name"] == "shop"]
    assert (row["id"], row["topics"], row["messages"]) == (made["id"], 1, 3)
    assert row["created_at"].endswith("Z")
    head, *lines = admin.text("stream", "list").splitlines()
    assert head.split() == ["ID", "NAME", "TOPICS", "MESSAGES", "SIZE", "CREATED", "AT"]
    assert any(line.split()[1] == "shop" for line in lines)
    assert admin.json("stream", "show", "shop")["topic_names"] == ["orders"]
    admin.text("stream", "purge", "shop", "--yes")
    assert admin.json("stream", "show", "shop")["messages"] == 0
    admin.text("stream", "delete", "shop", "--yes")
    code, why = admin.refused("stream", "show", "shop")
    assert (code, why) == (1, "iggykube: there is no stream shop, or you may not see it\n")


def test_nothing_is_lost_without_a_yes(admin: Admin, client: Client) -> None:
    client.create_stream("kept")
    client.create_topic("kept", "orders", 2)
    for command in (
        ("stream", "delete", "kept"),
        ("stream", "purge", "kept"),
        ("topic", "delete", "kept", "orders"),
        ("topic", "purge", "kept", "orders"),
        ("topic", "trim", "kept", "orders", "0", "1"),
        ("topic", "remove-partitions", "kept", "orders", "1"),
        ("group", "delete", "kept", "orders", "g"),
        ("user", "delete", "nobody"),
        ("token", "delete", "none"),
    ):
        code, why = admin.refused(*command)
        assert code == 2
        assert "Say --yes" in why
    assert client.get_topic("kept", "orders") is not None


def test_a_topic_with_all_its_options(admin: Admin, client: Client) -> None:
    client.create_stream("topics")
    options = ["--expiry", "7d", "--max-size", "10GiB", "--segment-size", "1MiB"]
    more = ["--durability", "persisted", "--option", "messages_required_to_save=100"]
    made = admin.json("topic", "create", "topics", "orders", "--partitions", "3", *options, *more)
    assert (made["partitions"], made["expiry"], made["max_size"]) == (3, "7d", 10 << 30)
    shown = admin.json("topic", "show", "topics", "orders")
    assert [one["id"] for one in shown["partition_list"]] == [0, 1, 2]
    assert shown["options"]["durability"] == "persisted"
    assert shown["options"]["messages_required_to_save"] == 100
    admin.text("topic", "update", "topics", "orders", "--name", "sales", "--expiry", "never")
    (row,) = admin.json("topic", "list", "topics")["topics"]
    assert (row["name"], row["expiry"], row["max_size"]) == ("sales", "never", 10 << 30)
    assert "10 GiB" in admin.text("topic", "list", "topics")
    told = admin.text("topic", "add-partitions", "topics", "sales", "2")
    assert told == "topic sales has 5 partitions\n"
    admin.text("topic", "remove-partitions", "topics", "sales", "4", "--yes")
    assert "current offset" in admin.text("topic", "show", "topics", "sales").lower()
    for _ in range(3):
        client.send("topics", "sales", Partitioning.partition(0), [Message(bytes(700_000))])
    admin.text("topic", "trim", "topics", "sales", "0", "1", "--yes")
    assert admin.json("topic", "show", "topics", "sales")["messages"] < 3
    admin.text("topic", "purge", "topics", "sales", "--yes")
    assert admin.json("topic", "show", "topics", "sales")["messages"] == 0
    admin.text("topic", "delete", "topics", "sales", "--yes")
    assert admin.text("topic", "list", "topics") == "no topics\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("topic", "create", "s", "t", "--expiry", "soon"), "'soon' is no expiry: never, or"),
        (("topic", "create", "s", "t", "--option", "colour=red"), "NAME=VALUE with one of"),
        (("topic", "create", "s", "t", "--option", "enforce_fsync=1"), "enforce_fsync=true or"),
        (("topic", "create", "s", "t", "--option", "segment_size=big"), "segment_size=NUMBER"),
        (("topic", "update", "s", "t"), "nothing to change"),
        (("user", "update", "u"), "nothing to change"),
        (("offset", "show", "s", "t"), "give --group or --consumer"),
        (("token", "create", "t", "--expires", "0s"), "must be longer than 0"),
        (("topics", "list"), "did you mean 'topic'?"),
    ],
)
def test_what_is_written_wrongly_reaches_no_broker(
    admin: Admin, arguments: tuple[str, ...], why: str
) -> None:
    code, told = admin.refused(*arguments)
    assert code == 2
    assert why in told


def test_what_the_broker_refuses_is_one_line(admin: Admin, client: Client) -> None:
    client.create_stream("twice")
    code, why = admin.refused("stream", "create", "twice")
    assert code == 1
    assert why.startswith("iggykube: the broker: ")
    assert len(why.splitlines()) == 1
    assert admin.refused("topic", "show", "twice", "none")[0] == 1
    assert admin.refused("client", "show", "4294967295")[0] == 1


def test_groups_and_offsets_have_their_lag(admin: Admin, client: Client) -> None:
    client.create_stream("lag")
    client.create_topic("lag", "orders", 2)
    client.send("lag", "orders", Partitioning.partition(1), [Message(b"x")] * 10)
    admin.text("group", "create", "lag", "orders", "billing")
    assert admin.json("group", "list", "lag", "orders")["groups"][0]["name"] == "billing"
    admin.text("offset", "set", "lag", "orders", "1", "3", "--group", "billing")
    shown = admin.json("group", "show", "lag", "orders", "billing")
    assert (shown["lag"], shown["members"]) == (6, 0)
    assert shown["partitions"][1] == {
        "partition": 1,
        "stored_offset": 3,
        "end": 10,
        "lag": 6,
        "member": None,
    }
    client.join_group("lag", "orders", "billing")
    table = admin.text("group", "show", "lag", "orders", "billing")
    (line,) = [one.split() for one in table.splitlines() if one.split()[:1] == ["1"]]
    assert line[2:] == ["3", "10", "6"]
    group = client.get_group("lag", "orders", "billing")
    assert group is not None
    assert line[1] == str(group.members[0].id)
    admin.text("offset", "set", "lag", "orders", "1", "9", "--consumer", "audit")
    rows = admin.json("offset", "show", "lag", "orders", "--consumer", "audit")["offsets"]
    assert [(one["stored_offset"], one["lag"]) for one in rows] == [(None, 0), (9, 0)]
    admin.text("offset", "delete", "lag", "orders", "1", "--consumer", "audit", "--yes")
    assert client.get_offset(Consumer.plain("audit"), "lag", "orders", 1) is None
    admin.text("group", "delete", "lag", "orders", "billing", "--yes")
    assert admin.text("group", "list", "lag", "orders") == "no groups\n"


def test_a_user_and_what_it_may_do(admin: Admin, client: Client, tmp_path: Path) -> None:
    client.create_stream("crm")
    client.create_topic("crm", "mails", 1)
    secret, other = tmp_path / "secret", tmp_path / "other"
    secret.write_text("a good password\n")
    other.write_text("a better password\n")
    grants = tmp_path / "grants.yaml"
    grants.write_text(
        "global: [ReadServers]\n"
        "streams:\n"
        "- stream: crm\n"
        "  allow: [ReadStream]\n"
        "  topics:\n"
        "  - {topic: mails, allow: [PollMessages, SendMessages]}\n"
    )
    admin.text("user", "create", "ada", "--new-password-file", secret, "--permissions", grants)
    shown = admin.json("user", "show", "ada")
    assert shown["active"] is True
    assert shown["permissions"] == {
        "global": ["ReadServers"],
        "streams": [
            {
                "stream": "crm",
                "allow": ["ReadStream"],
                "topics": [{"topic": "mails", "allow": ["PollMessages", "SendMessages"]}],
            }
        ],
    }
    again = tmp_path / "again.yaml"  # what `show` prints can be given back
    again.write_text("permissions:" + admin.text("user", "show", "ada").split("permissions:")[1])
    admin.text("user", "permissions", "ada")
    assert admin.json("user", "show", "ada")["permissions"] in ({}, {"global": []})
    admin.text("user", "permissions", "ada", "--permissions", again)
    assert admin.json("user", "show", "ada")["permissions"] == shown["permissions"]
    passwords = ("--current-password-file", secret, "--new-password-file", other)
    admin.text("user", "password", "ada", *passwords)
    with Client.connect(admin.broker.address, "ada", "a better password") as ada:
        assert ada.get_stream("crm") is not None
    admin.text("user", "update", "ada", "--name", "grace", "--inactive")
    (row,) = [one for one in admin.json("user", "list")["users"] if one["name"] == "grace"]
    assert row["active"] is False
    admin.text("user", "delete", "grace", "--yes")
    assert admin.refused("user", "show", "grace")[0] == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("global: [ReadEverything]", "spec.permissions.global"),
        ("streams: [{stream: nowhere, allow: [ReadStream]}]", "not in the broker"),
        ("global: [", "is no YAML"),
        ("colour: red", "colour"),
    ],
)
def test_permissions_that_are_wrong_change_nothing(
    admin: Admin, client: Client, tmp_path: Path, text: str, why: str
) -> None:
    if client.get_user("bob") is None:
        client.create_user("bob", "a good password")
    before = client.get_user("bob")
    path = tmp_path / "grants.yaml"
    path.write_text(text)
    code, told = admin.refused("user", "permissions", "bob", "--permissions", path)
    assert code == 1
    assert str(path) in told
    assert why in told
    assert client.get_user("bob") == before


def test_a_token_logs_in_and_lies_in_a_private_file(admin: Admin, tmp_path: Path) -> None:
    path = tmp_path / "token"
    admin.text("token", "create", "ci", "--expires", "30d", "--to", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (row,) = admin.json("token", "list")["tokens"]
    assert row["name"] == "ci"
    assert row["expires_at"].endswith("Z")
    done = run_program("ping", "--servers", admin.broker.address, "--token-file", path)
    assert done.returncode == 0
    assert done.stdout.startswith(b"answered in ")
    assert admin.refused("token", "create", "two", "--expires", "never", "--to", path)[0] == 1
    assert [one["name"] for one in admin.json("token", "list")["tokens"]] == ["ci"]
    assert admin.json("token", "create", "two", "--expires", "never")["token"]
    for name in ("ci", "two"):
        admin.text("token", "delete", name, "--yes")
    assert admin.text("token", "list") == "no tokens\n"


def test_the_broker_itself(admin: Admin, client: Client) -> None:
    stats = admin.json("stats")
    assert stats["server_version"] == client.get_stats().server_version
    assert stats["total_disk_size"] > 0
    assert "started at" in admin.text("stats")
    (node,) = admin.json("cluster")["nodes"]
    assert node["tcp_port"] == int(admin.broker.address.rpartition(":")[2])
    assert (node["role"], node["status"]) == ("leader", "healthy")
    assert "leader" in admin.text("cluster")
    me = admin.json("client", "me")
    assert (me["transport"], me["memberships"]) == ("tcp", [])
    mine = client.get_me().client.client_id
    assert mine in [one["id"] for one in admin.json("client", "list")["clients"]]
    assert str(mine) in admin.text("client", "show", str(mine))


def test_messages_go_by_both_names(admin: Admin, client: Client, tmp_path: Path) -> None:
    client.create_stream("words")
    client.create_topic("words", "orders", 1)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    place = ("--servers", admin.broker.address, "words", "orders")
    assert run(["message", "send", *place, str(lines)]) == 0
    done = run_program(
        *("message", "poll", *place, "--output", "raw"),
        environment=clean_environment(IGGY_USERNAME=USERNAME, IGGY_PASSWORD=PASSWORD),
    )
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")


@pytest.mark.parametrize(
    ("value_us", "text"),
    [(0, "0s"), (1_500_000, "1s500ms"), (90_060_000_000, "1d1h1m"), (604_800_000_000, "7d")],
)
def test_durations_are_written_as_options_take_them(value_us: int, text: str) -> None:
    assert frame.duration_text(value_us) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (10 << 20, "10 MiB"), (1 << 60, "1024 PiB")],
)
def test_sizes_have_a_unit(size_bytes: int, text: str) -> None:
    assert frame.size_text(size_bytes) == text
