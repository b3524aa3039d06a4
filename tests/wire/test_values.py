"""Identifiers, options, results, versions: the rules that their layouts alone do not show."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_wire.cursor import Reader
from iggy_wire.dialect import (
    P11,
    P12_0,
    P12_1,
    P12_2,
    VERSION_MAX,
    VERSION_MIN,
    dialect_of,
    pack_version,
    version_text,
)
from iggy_wire.errors import ErrorCode, WireError, error_name
from iggy_wire.header import RequestHeader
from iggy_wire.options import (
    OPTIONS_BYTES_MAX,
    TOPIC_OPTION_KINDS,
    Option,
    ValueKind,
    decode_options,
    make_options,
    options_bytes,
    pair_bytes,
)
from iggy_wire.primitives import Consumer, Identifier, Partitioning, partition_of_key
from iggy_wire.requests import (
    CreateUser,
    Login,
    LoginWithToken,
    PollMessages,
    SendMessages,
    decode_request,
)
from iggy_wire.results import rejection_bytes, split_result, success_bytes
from recorded import exchange


def test_a_name_of_digits_stays_a_name() -> None:
    assert Identifier("12").encode() == b"\x02\x0212"
    assert Identifier.of(12).encode() == b"\x01\x04\x0c\x00\x00\x00"
    assert (Identifier(12).kind, Identifier("12").kind) == (1, 2)


@pytest.mark.parametrize("value", ["", "x" * 256, "é" * 128, -1, 1 << 32, "\ud800"])
def test_an_identifier_that_does_not_fit_is_refused(value: int | str) -> None:
    with pytest.raises(WireError, match="identifier"):
        Identifier(value).encode()


@pytest.mark.parametrize(
    "raw", [b"", b"\x01", b"\x03\x04abcd", b"\x01\x03abc", b"\x02\x00", b"\x02\x05abcd",
            b"\x02\x02\xff\xfe"],
)  # fmt: skip
def test_bytes_that_are_no_identifier_are_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match="stream"):
        Identifier.read(Reader(raw), "stream")


def test_a_named_consumer_is_kept_under_the_hash_of_its_name() -> None:
    assert Consumer.plain(7).number == 7
    assert Consumer.plain("").number == 0x02CC5D05  # XXH32 of nothing, seed 0
    assert partition_of_key(b"", 1000) == 0x02CC5D05 % 1000


def test_partitioning_knows_its_partition() -> None:
    assert Partitioning.partition(77).partition_id == 77
    with pytest.raises(WireError, match="message key"):
        Partitioning.key(b"")


@given(
    st.one_of(
        st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False),
        st.binary(min_size=1, max_size=255), st.text("aé€", min_size=1, max_size=85),
    )
)  # fmt: skip
def test_an_option_gives_back_its_value(value: bool | int | float | str | bytes) -> None:
    assert Option.of("anything", value).get() == value


def test_topic_options_have_the_kinds_that_servers_insist_on() -> None:
    options = make_options({"message_expiry": 5, "messages_required_to_save": 7, "durability": "x"})

    assert [option.key for option in options] == sorted(option.key for option in options)
    kinds = {option.key: option.kind for option in options}
    assert kinds == {
        "durability": ValueKind.STRING,
        "message_expiry": ValueKind.UINT64,
        "messages_required_to_save": ValueKind.UINT32,
    }
    assert Option.of("message_expiry", "7 days").kind == ValueKind.STRING
    assert len(TOPIC_OPTION_KINDS) == 10


@pytest.mark.parametrize(
    ("key", "value"), [("messages_required_to_save", 1 << 32), ("segment_size", -1),
                       ("preallocate_segments", 1), ("segment_size", 1.5)],
)  # fmt: skip
def test_an_option_value_of_the_wrong_kind_is_refused(key: str, value: float) -> None:
    with pytest.raises(WireError, match=key):
        Option.of(key, value)


def test_a_key_given_twice_is_refused() -> None:
    block = options_bytes((Option.of("a", 1), Option.of("a", 2)))

    with pytest.raises(WireError, match="option a: given twice"):
        decode_options(block)


def test_too_large_a_block_has_its_own_refusal() -> None:
    many = options_bytes(tuple(Option.of(f"key {n}", n) for n in range(1025)))

    for block in (many, bytes(OPTIONS_BYTES_MAX + 1)):
        with pytest.raises(WireError) as refusal:
            decode_options(block)
        assert refusal.value.code == ErrorCode.OPTIONS_BLOCK_TOO_LARGE


@pytest.mark.parametrize(
    "block",
    [
        pair_bytes(ValueKind.UINT8, b"k", ValueKind.UINT8, b"1"),
        pair_bytes(ValueKind.STRING, b"\xff", ValueKind.UINT8, b"1"),
        pair_bytes(ValueKind.STRING, b"k", 0, b"1"),
        b"\x02\x00\x00\x00\x00",
        b"\x02\x00\x01\x00\x00" + bytes(256),
    ],
)
def test_a_malformed_block_is_refused(block: bytes) -> None:
    with pytest.raises(WireError, match="option"):
        decode_options(block)


@pytest.mark.parametrize(
    ("kind", "raw"), [(ValueKind.UINT32, b"123"), (ValueKind.BOOL, b"\x02"),
                      (ValueKind.STRING, b"\xff"), (99, b"1"), (ValueKind.FLOAT64, b"1")],
)  # fmt: skip
def test_an_option_whose_bytes_do_not_fit_its_kind_has_no_value(kind: int, raw: bytes) -> None:
    with pytest.raises(WireError, match="option k"):
        Option("k", kind, raw).get()


def test_results() -> None:
    assert split_result(success_bytes(b"payload")) == (0, b"payload")
    assert len(rejection_bytes(1009)) == 12
    assert split_result(rejection_bytes(1009)) == (1009, b"")
    assert split_result(b"\x02" + bytes(3) + b"\x00" * 4 + b"\x05" + bytes(11) + b"x") == (5, b"x")
    with pytest.raises(WireError, match="results"):
        split_result(b"\xff\xff\xff\xff")


def test_versions() -> None:
    assert pack_version(0, 11, 0) == 11264 == P11.version
    assert version_text(12290) == "0.12.2"
    assert dialect_of(11264) is P11
    assert dialect_of(11265) is None
    assert [dialect_of(number) for number in (12288, 12289, 12290)] == [P12_0, P12_1, P12_2]
    assert dialect_of(12291) is None
    assert dialect_of(0) is None
    assert (VERSION_MIN, VERSION_MAX) == (11264, 12290)


def test_values_do_not_show_secrets() -> None:
    login = Login(11264, "sdk", "1", "root", "hush-hush")
    token = LoginWithToken(11264, "sdk", "1", "hush-hush")

    assert "hush" not in repr(login) + repr(token) + repr(CreateUser("me", "hush-hush"))


def test_errors_are_named_and_travel_between_processes() -> None:
    error = WireError(ErrorCode.INVALID_COMMAND, "name: too long")

    copied = pickle.loads(pickle.dumps(error))

    assert (copied.code, copied.detail, str(copied)) == (3, "name: too long", str(error))
    assert error_name(2010) == "TOPIC_ID_NOT_FOUND"
    assert error_name(64999) == "UNKNOWN"


def test_a_send_leaves_its_batch_where_it_is() -> None:
    frame = exchange("real/010_send_messages").request
    assert frame is not None
    received = bytearray(frame)

    request = decode_request(P11, RequestHeader.decode(received), memoryview(received)[256:])

    assert isinstance(request, SendMessages)
    assert isinstance(request.batch, memoryview)
    assert request.batch.obj is received
    assert (request.stream, request.topic) == (Identifier("orders"), Identifier("events"))
    assert request.messages_count == 3


def test_bytes_behind_a_poll_are_ignored() -> None:
    frame = exchange("real/011_poll_messages").request
    assert frame is not None
    body = frame[256:]

    assert PollMessages.decode(body + b"more") == PollMessages.decode(body)
