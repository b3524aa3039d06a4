"""The command table: which request class and which handler serve a command. Data, no ifs."""

from __future__ import annotations

from iggy_broker.net.context import Row
from iggy_broker.net.handlers import groups, messages, offsets, streams, system, users

COMMANDS: dict[int, Row] = {
    **system.COMMANDS,
    **users.COMMANDS,
    **streams.COMMANDS,
    **messages.COMMANDS,
    **offsets.COMMANDS,
    **groups.COMMANDS,
}
