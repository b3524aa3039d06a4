"""One user: permissions by name become permissions by number, passwords and tokens that are due."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from iggy_operator.units import time_of
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
TOKEN_LEFT: Final = 1 / 3
"""A token is renewed when this part of its life is left."""


def wanted_permissions(
    spec: Mapping[str, Any],
    streams: Mapping[str, int],
    topics: Mapping[tuple[str, str], int],
) -> tuple[Permissions, tuple[str, ...]]:
    """What the spec grants, and the names in it that are not in the broker.

    `streams` and `topics` give the numbers of those that are there, by name.
    """
    grants: list[StreamPermissions] = []
    unresolved: list[str] = []
    for entry in spec.get("streams", ()):
        stream = entry["stream"]
        if stream not in streams:
            unresolved.append(stream)
            continue
        inner = []
        for item in entry.get("topics", ()):
            number = topics.get((stream, item["topic"]))
            if number is None:
                unresolved.append(f"{stream}/{item['topic']}")
            else:
                inner.append(TopicPermissions(number, **_flags(item["allow"])))
        flags = _flags(entry.get("allow", ()))
        inner.sort(key=lambda grant: grant.topic_id)
        grants.append(StreamPermissions(streams[stream], **flags, topics=tuple(inner)))
    grants.sort(key=lambda grant: grant.stream_id)
    everywhere = GlobalPermissions(**_flags(spec.get("global", ())))
    return Permissions(everywhere, tuple(grants)), tuple(unresolved)


def in_order(permissions: Permissions | None) -> Permissions:
    """The same permissions in ascending order, so that equal ones are equal."""
    if permissions is None:
        return Permissions()
    grants = [
        StreamPermissions(
            grant.stream_id,
            grant.manage_stream,
            grant.read_stream,
            grant.manage_topics,
            grant.read_topics,
            grant.poll_messages,
            grant.send_messages,
            tuple(sorted(grant.topics, key=lambda item: item.topic_id)),
        )
        for grant in permissions.streams
    ]
    grants.sort(key=lambda grant: grant.stream_id)
    return Permissions(permissions.everywhere, tuple(grants))


def is_rotation_due(asked: str, done: str, *, now_s: float) -> bool:
    """Whether a new password is wanted: `asked` is a time that has come, and was not done yet.

    Raises ValueError if it is no time.
    """
    return bool(asked) and asked != done and time_of(asked) <= now_s


def is_token_due(expires_at: str, lifetime_s: float | None, *, now_s: float) -> bool:
    """Whether a token must be made anew. `lifetime_s` None: it never expires."""
    if lifetime_s is None:
        return expires_at != ""
    return expires_at == "" or time_of(expires_at) - now_s < lifetime_s * TOKEN_LEFT


def _flags(names: Iterable[str]) -> dict[str, bool]:
    return {_WORD.sub("_", name).lower(): True for name in names}
