"""Every body survives the way out and back; no bytes raise anything but WireError."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodies import REPLY_TYPES, REQUEST_TYPES, bodies, truncations
from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import HEADER_BYTES, RequestHeader
from iggy_wire.requests import decode_login, decode_request

LAYOUTS = [*REQUEST_TYPES, *REPLY_TYPES]
# Layouts that run to the end of the body: a shorter body may be a valid one, with less in it.
OPEN_ENDED = {
    "AccessTokens", "Archive", "Clients", "CreateStream", "CreateTopic", "CreateUser", "Groups",
    "Polled", "SendMessages", "Streams", "UpdateStream", "UpdateTopic", "UpdateUser", "Users",
    "UpdateResource", "UserDetails",
}  # fmt: skip


def names(layout: type[Any]) -> str:
    dialect = " of P12" if layout.__module__.endswith("_p12") else ""
    return layout.__name__ + dialect


@pytest.mark.parametrize("layout", LAYOUTS, ids=names)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_decoding_undoes_encoding(layout: type[Any], data: st.DataObject) -> None:
    value = data.draw(bodies(layout))

    assert layout.decode(value.encode()) == value


@pytest.mark.parametrize("layout", LAYOUTS, ids=names)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_cut_off_body_is_refused(layout: type[Any], data: st.DataObject) -> None:
    body = data.draw(bodies(layout)).encode()

    for cut in truncations(body):
        try:
            shorter = layout.decode(cut)
        except WireError:
            continue
        assert layout.__name__ in OPEN_ENDED
        assert cut.startswith(shorter.encode()[: len(cut)])


@pytest.mark.parametrize("layout", LAYOUTS, ids=names)
@settings(max_examples=50, deadline=None)
@given(body=st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_else(layout: type[Any], body: bytes) -> None:
    try:
        layout.decode(body)
    except WireError as error:
        assert error.detail


@pytest.mark.parametrize("layout", LAYOUTS, ids=names)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_damaged_bytes_raise_nothing_else(layout: type[Any], data: st.DataObject) -> None:
    body = bytearray(data.draw(bodies(layout)).encode())
    for _ in range(min(len(body), 3)):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    try:
        layout.decode(body)
    except WireError as error:
        assert error.detail


@settings(max_examples=300, deadline=None)
@given(
    operation=st.sampled_from([*Operation, 0, 69, 99, 127, 151, 255]),
    code=st.sampled_from([*P11.requests, 0, 11, 14, 107, 9999, (1 << 32) - 1]),
    body=st.binary(max_size=100),
)
def test_any_request_is_decoded_or_refused(operation: int, code: int, body: bytes) -> None:
    header = RequestHeader(operation, bytes(16), HEADER_BYTES + len(body), code=code)

    try:
        request = decode_request(P11, header, body)
    except WireError as error:
        assert error.code in (
            ErrorCode.INVALID_COMMAND,
            ErrorCode.INVALID_FORMAT,
            ErrorCode.FEATURE_UNAVAILABLE,
            ErrorCode.RESOURCE_NOT_FOUND,
            ErrorCode.OPTIONS_BLOCK_TOO_LARGE,
        )
    else:
        assert request.command in P11.requests


@settings(max_examples=50, deadline=None)
@given(login=bodies(P11.requests[40]))
def test_a_password_login_is_never_taken_for_a_token(login: Any) -> None:
    assert decode_login(login.encode()) == login


def test_a_token_login_with_an_empty_context_is_not_taken_for_a_password() -> None:
    token = P11.requests[45].decode(
        b"\x00\x2c\x00\x00" + b"\x03sdk" + b"\x011" + b"\x05token" + bytes(4)
    )

    assert decode_login(token.encode()) == token


@pytest.mark.parametrize(
    ("layout", "field"),
    [(P11.requests[202], "stream name"), (P11.requests[40], "protocol version")],
    ids=["create_stream", "login"],
)
def test_a_refusal_names_the_field(layout: type[Any], field: str) -> None:
    with pytest.raises(WireError, match=field):
        layout.decode(b"")
