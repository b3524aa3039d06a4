"""What is refused: to a client by a reply, to whoever starts the broker by a line.

Anything else that escapes while a request is served is our bug.
"""

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


class CertificateError(Exception):
    """A certificate that cannot be used. The text says what is wrong and the way out."""
