"""Names of indexes, fixed or by the time of the message. Pure."""

from __future__ import annotations

import datetime
import re
from typing import Final

from iggy_spark.errors import OptionError

NAME_BYTES_MAX: Final = 255
NAMES_MAX: Final = 4096  # remembered; one for each hour
_HOUR_US: Final = 3_600_000_000
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TIME = re.compile(r"timestamp:((?:%[YmdHjGV]|[^%])+)")
# As Elasticsearch's "create index" API allows them: lower case, none of these, no such beginning.
_FORBIDDEN = re.compile(r"""[\\/*?"<>| ,#:{}A-Z\x00-\x1f]|^[-_+]|^\.{1,2}$""")


class IndexName:
    """A name such as `orders`, or `orders-{timestamp:%Y.%m}`: filled in from the time when the
    broker took a message, in UTC.
    """

    def __init__(self, field: str, template: str) -> None:
        """`field` is named in errors.

        Raises:
            OptionError: another placeholder, a format that is finer than an hour, or no name.
        """
        self._parts: list[tuple[str, str | None]] = []
        at = 0
        for found in _PLACEHOLDER.finditer(template):
            time = _TIME.fullmatch(found[1])
            if time is None:
                raise OptionError(
                    f"{field}: {found[0]} cannot be filled in: use one such as "
                    "{timestamp:%Y.%m.%d}, with %Y %m %d %H %j %G %V"
                )
            self._parts.append((template[at : found.start()], time[1]))
            at = found.end()
        self._parts.append((template[at:], None))
        self._names: dict[int, str] = {}
        sample = self.of(0)
        if _FORBIDDEN.search(sample) or len(sample.encode()) > NAME_BYTES_MAX:
            raise OptionError(
                f"{field}: {sample!r} is no name of an index: use lower-case letters, digits, "
                "dashes and dots, and begin with a letter or digit"
            )

    def of(self, timestamp_us: int) -> str:
        """The index of a message of that time (microseconds since 1970 UTC)."""
        hour = timestamp_us // _HOUR_US
        if hour not in self._names:
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            time = datetime.datetime.fromtimestamp(hour * 3600, tz=datetime.UTC)
            self._names[hour] = "".join(
                text + ("" if form is None else time.strftime(form)) for text, form in self._parts
            )
        return self._names[hour]
