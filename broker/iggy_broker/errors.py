"""The exceptions that the broker turns into a reply. Anything else that escapes is our bug."""

from iggy_wire.errors import ErrorCode


class Reject(Exception):
    """An expected refusal: the client gets `code`, the log gets `detail`.

    For a metadata command it is the outcome of the change and travels in the result section.
    """

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(
            f"{code.name} {code.value}: {detail}" if detail else f"{code.name} {code.value}"
        )
        self.code = code
        self.detail = detail


class Deny(Reject):
    """A refusal before anything could be logged: it travels in the status word, always."""
