"""The snapshot: a ZIP archive with what somebody needs who looks for a fault."""

from __future__ import annotations

import asyncio
from typing import Final

from iggy_broker.errors import Deny
from iggy_broker.net import diagnosis
from iggy_broker.net.context import Answer, Context, Row
from iggy_wire import requests
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode

ALL: Final = 100


async def get_snapshot(context: Context, request: requests.GetSnapshot) -> Answer:
    """The archive. One at a time, over all shards: it reads much."""
    kinds = _kinds(request.types)
    method = diagnosis.METHODS.get(request.compression)
    if method is None:
        detail = f"compression {request.compression}: must be 1 to {max(diagnosis.METHODS)}"
        raise Deny(ErrorCode.INVALID_COMMAND, detail)
    config = context.services.config
    try:
        archive = await asyncio.to_thread(diagnosis.archive, config, kinds, method=method)
    except diagnosis.SnapshotRunning:
        detail = "another snapshot is being made; ask again when it is done"
        raise Deny(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED, detail) from None
    except OSError as error:
        detail = f"{error}: free some space, and ask again"
        raise Deny(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED, detail) from None
    if len(archive) > context.services.poll_bytes_max:
        detail = f"the archive has {len(archive)} bytes, more than a frame holds"
        raise Deny(ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED, detail)
    return Answer(archive)


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_SNAPSHOT: Row(get_snapshot, requests.GetSnapshot),
}


def _kinds(types: tuple[int, ...]) -> tuple[int, ...]:
    if types == (ALL,):
        return tuple(diagnosis.CONTENTS)
    unknown = [kind for kind in types if kind not in diagnosis.CONTENTS]
    if unknown or not types:
        detail = f"types {list(types)}: some of {list(diagnosis.CONTENTS)}, or {ALL} alone"
        raise Deny(ErrorCode.INVALID_COMMAND, detail)
    return tuple(dict.fromkeys(types))
