"""The one update command that P12 has for topics, streams and users."""

from __future__ import annotations

from typing import Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import catalogue, changes
from iggy_broker.metadata import options as topic_options
from iggy_broker.metadata.model import ROOT_USER_ID
from iggy_broker.net.context import Answer, Context, Row
from iggy_broker.net.handlers import streams, users
from iggy_broker.net.passwords import USERNAME_BYTES
from iggy_wire import requests
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.options import Option, Options, ValueKind
from iggy_wire.requests_p12 import Scope, UpdateResource

_STATUSES: Final = {"active": users.ACTIVE, "inactive": users.INACTIVE}
_BAD_NAME: Final = {
    Scope.STREAM: ErrorCode.INVALID_STREAM_NAME,
    Scope.TOPIC: ErrorCode.INVALID_TOPIC_NAME,
    Scope.USER: ErrorCode.INVALID_USERNAME,
}


async def update_resource(context: Context, request: UpdateResource) -> Answer:
    """Change or reset options of a topic, a stream or a user; names and status are options."""
    catalogue.check_keys(request.scope, request.resets, request.options)
    given = {option.key: option for option in request.options}
    if request.scope is Scope.USER:
        return await _update_user(context, request, given)
    name = _text(given.pop("name", None), _BAD_NAME[request.scope])
    if request.scope is Scope.STREAM:
        assert name is not None, "a stream has nothing else to change"
        return await streams.update_stream(context, requests.UpdateStream(request.target[0], name))
    return await _update_topic(context, request, name, tuple(given.values()))


async def _update_user(
    context: Context, request: UpdateResource, given: dict[str, Option]
) -> Answer:
    name = _text(given.get("username"), ErrorCode.INVALID_USERNAME)
    if name is not None and len(name.encode()) not in USERNAME_BYTES:
        detail = f"username: 3 to 50 bytes, this one has {len(name.encode())}"
        raise Deny(ErrorCode.INVALID_USERNAME, detail)
    word = _text(given.get("status"), ErrorCode.INVALID_USER_STATUS)
    if word is not None and word not in _STATUSES:
        raise Deny(ErrorCode.INVALID_USER_STATUS, f"status {word!r}: write active or inactive")
    found = context.services.replica.state.find_user(request.target[0].value)
    if found is not None and found.id == ROOT_USER_ID:
        raise Reject(ErrorCode.CANNOT_MODIFY_ROOT_USER, "root stays as it is")
    status = None if word is None else _STATUSES[word]
    return await users.update_user(context, requests.UpdateUser(request.target[0], name, status))


async def _update_topic(
    context: Context, request: UpdateResource, name: str | None, options: Options
) -> Answer:
    services = context.services
    stream, topic = (one.value for one in request.target)
    found = services.replica.state.find_topic(stream, topic)
    node = topic_options.node_settings(services.config)
    options = topic_options.check_update(options, () if found is None else found[1].options, node)
    if name is None and not options and not request.resets:
        detail = "update: 0 stands for the default; reset the option instead"
        raise Deny(ErrorCode.INVALID_COMMAND, detail)
    change = changes.AlterTopic(stream, topic, name, options, request.resets)
    result = await services.replica.submit(change, caller=context.caller)
    return Answer(op=result.op, timestamp_us=result.at_us)


def _text(option: Option | None, code: ErrorCode) -> str | None:
    """The text of an option that is one."""
    if option is None:
        return None
    try:
        value = option.get() if option.kind == ValueKind.STRING else None
    except WireError:
        value = None
    if not isinstance(value, str):
        raise Deny(code, f"option {option.key!r}: write it as text")
    return value


COMMANDS: Final[dict[int, Row]] = {
    Command.UPDATE_RESOURCE: Row(update_resource, UpdateResource),
}
