"""From a request's operation and code to its handler, and from the outcome to the reply frame.

`COMMANDS` is the table of everything that any shard can serve by itself. Commands that belong to
one partition are elsewhere: sends and polls in `connection`, offsets in `PARTITION_COMMANDS`.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.logs import event
from iggy_broker.metadata import access
from iggy_broker.net.context import Answer, Context, Row
from iggy_broker.net.handlers import (
    clients,
    groups,
    snapshot,
    streams,
    system,
    tokens,
    updates,
    users,
)
from iggy_broker.net.p12 import renamed
from iggy_wire.codes import (
    CODES_OF_OTHER_OPERATIONS,
    COMMAND_OF_OPERATION,
    SESSION_CODES,
    Command,
    Operation,
    is_metadata,
    is_result_framed,
)
from iggy_wire.dialect import version_text
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import RequestHeader, encode_reply
from iggy_wire.request_base import Request

logger = logging.getLogger(__name__)

COMMANDS: Final[dict[int, Row]] = {
    **system.COMMANDS,
    **clients.COMMANDS,
    **users.COMMANDS,
    **tokens.COMMANDS,
    **snapshot.COMMANDS,
    **streams.COMMANDS,
    **groups.COMMANDS,
    **updates.COMMANDS,
}

assert COMMANDS.keys() <= access.ACCESS.keys(), "every command has a row in the access table"

_SUCCESS: Final = bytes(4)  # a result section without entries
_REJECTION: Final = Struct("<III")  # one entry: index 0, error code
_CHECKSUM_ERRORS: Final = (ErrorCode.INVALID_BATCH_CHECKSUM, ErrorCode.INVALID_MESSAGE_CHECKSUM)
_KNOWN_CODES: Final = frozenset(Command)


def command_of(header: RequestHeader) -> int:
    """The command that a request asks for. Deny when there is none, or not in this form."""
    if header.operation != Operation.NON_REPLICATED:
        command = COMMAND_OF_OPERATION.get(header.operation)
        if command is None:
            raise Deny(ErrorCode.INVALID_COMMAND, f"operation {header.operation} is unknown")
        return command
    if header.code in CODES_OF_OTHER_OPERATIONS:
        detail = f"code {header.code} must come as an operation of its own"
        raise Deny(ErrorCode.FEATURE_UNAVAILABLE, detail)
    if header.code not in _KNOWN_CODES:
        raise Deny(ErrorCode.INVALID_COMMAND, f"code {header.code} is unknown")
    return header.code


async def serve(context: Context, command: int, body: bytes) -> bytes:
    """Run one command of `COMMANDS`: the reply frame, whatever the outcome."""
    header = context.header
    if header.operation == Operation.NON_REPLICATED and command in SESSION_CODES:
        return reply(context, Answer())
    row = COMMANDS.get(command)
    if row is None or command not in context.dialect.requests:
        return refuse(context, _not_served(context, command))
    try:
        request = None if row.request is None else row.request.decode(body)
        check_access(context, command, request)
        return reply(context, await row.handler(context, request))
    except Reject as refusal:
        return refuse(context, renamed(refusal, command) if context.dialect.is_p12 else refusal)
    except WireError as malformed:
        return refuse(context, Deny(malformed.code, malformed.detail))


def _not_served(context: Context, command: int) -> Deny:
    name = Command(command).name
    if command not in context.dialect.requests:
        version = version_text(context.dialect.version)
        detail = f"{name}: a single node does not serve this in protocol {version}"
        return Deny(ErrorCode.INVALID_COMMAND, detail)
    detail = f"{name}: messages are written before they are acknowledged"
    return Deny(ErrorCode.FEATURE_UNAVAILABLE, detail)


def check_access(context: Context, command: int, request: Request | None) -> None:
    """Reject with UNAUTHORIZED what the caller may not; see `metadata.access`."""
    if command == Command.PING:
        return
    named = (getattr(request, name, None) for name in ("stream", "topic", "user"))
    values = [None if one is None else one.value for one in named]
    target = access.NO_TARGET if values == [None] * 3 else access.Target(*values)
    access.authorize(context.services.replica.state, context.user_id, command, target)


def reply(context: Context, answer: Answer) -> bytes:
    """The frame of a success, with the result section where the operation has one."""
    header = context.header
    commit = context.services.replica.state.op
    operation = header.operation
    if operation == Operation.DELETE_SEGMENTS:
        operation = Operation.TRUNCATE_PARTITION  # only so is the reply result-framed
    framed = is_result_framed(operation, 1) and operation != Operation.NON_REPLICATED
    context.services.counters.requests_total += 1
    return encode_reply(
        header,
        _SUCCESS + answer.body if framed else answer.body,
        operation=operation,
        op=answer.op or context.session.number,
        commit=answer.op or commit,
        timestamp=answer.timestamp_us or header.timestamp,
    )


def refuse(context: Context, refusal: Reject) -> bytes:
    """The frame of a refusal: result section for outcomes of changes, status word for the rest."""
    header = context.header
    commit = context.services.replica.state.op
    context.services.counters.refused(refusal.code)
    if refusal.code in _CHECKSUM_ERRORS:
        context.services.counters.count("checksum_errors_total", "client")
    logger.debug("! %s", refusal, extra=event("refused", client=context.session.client_number))
    if is_metadata(header.operation) and not isinstance(refusal, Deny):
        return rejection(context, refusal.code)
    return encode_reply(header, status=refusal.code, commit=commit)


def rejection(context: Context, code: ErrorCode) -> bytes:
    """The frame of a refused change: a result section with the code."""
    header = context.header
    commit = context.services.replica.state.op
    operation = header.operation
    if operation == Operation.DELETE_SEGMENTS:
        operation = Operation.TRUNCATE_PARTITION
    body = _REJECTION.pack(1, 0, code)
    return encode_reply(header, body, operation=operation, op=commit, commit=commit)
