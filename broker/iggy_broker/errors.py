"""The exceptions that the broker turns into a reply. Anything else that escapes is our bug."""

from iggy_wire.errors import ErrorCode


class Reject(Exception):
    """An expected refusal: the client gets `code`, the log gets `detail`.

    For a metadata command it is the outcome of the change and travels in the result section.
    """

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        """`code` for the client; `detail` says what was refused and how to put it right."""
        name = f"{code.name} {code.value}"
        super().__init__(f"{name}: {detail}" if detail else name)
        self.code = code
        self.detail = detail


class Deny(Reject):
    """A refusal before anything could be logged: it travels in the status word, always."""
