"""What was applied to this data directory: objects as they were, identities as they were found."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from iggy_operator.documents import Document
from iggykube.errors import LocalError
from iggykube.local.folders import write_private


class Applied(msgspec.Struct, frozen=True):
    """One object as it was applied."""

    kind: str
    namespace: str
    name: str
    value: dict[str, Any]
    incarnation: str = ""
    """Identity of the entity in the broker; empty if it has none."""


class State(msgspec.Struct, frozen=True):
    """Everything that was ever applied. Objects that left the files stay: nothing is deleted."""

    objects: tuple[Applied, ...] = ()

    def values(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Objects by kind, namespace and name, for rules about changes."""
        return {(item.kind, item.namespace, item.name): item.value for item in self.objects}

    def incarnation(self, identity: tuple[str, str, str]) -> str | None:
        """The entity that we made or adopted, None if there was none."""
        for item in self.objects:
            if (item.kind, item.namespace, item.name) == identity:
                return item.incarnation or None
        return None

    def replaced(
        self, documents: Iterable[Document], incarnations: dict[tuple[str, str, str], str]
    ) -> "State":
        """With these documents as the newest state of their objects."""
        objects = {(item.kind, item.namespace, item.name): item for item in self.objects}
        for document in documents:
            identity = document.identity
            incarnation = incarnations.get(identity, "")
            objects[identity] = Applied(*identity, dict(document.value), incarnation)
        return State(tuple(objects[identity] for identity in sorted(objects)))


def load(path: Path) -> State:
    """The state of a data directory; empty for a new one. Raises LocalError for a broken file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except (FileNotFoundError, NotADirectoryError):
        return State()
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        fix = "move it away; topics and messages stay, only changes are no longer checked"
        raise LocalError(f"{path} cannot be read ({error}): {fix}") from error


def save(path: Path, state: State) -> None:
    """Replace the state in one step."""
    write_private(path, msgspec.json.encode(state).decode())
