"""The headers that let scripts of other origins in. Iggy 0.9 HTTP API, chapter on CORS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iggy_broker.config_http import Cors

Headers = list[tuple[str, str]]

_PRIVATE: Final = "Access-Control-Request-Private-Network"


class CorsHeaders:
    """Made once from the settings."""

    def __init__(self, settings: Cors) -> None:
        """`settings` are known to fit together."""
        self.enabled = settings.enabled
        self._settings = settings
        self._is_open = settings.allowed_origins == ("*",)

    def of_reply(self, request: Mapping[str, str]) -> Headers:
        """For every answer but those to OPTIONS, whatever its status."""
        if not self.enabled:
            return []
        exposed = ",".join(self._settings.exposed_headers)
        headers = [("access-control-expose-headers", exposed)] if exposed else []
        return headers + self._of_both(request)

    def of_preflight(self, request: Mapping[str, str]) -> Headers:
        """For the answer to OPTIONS."""
        settings = self._settings
        headers = [
            ("access-control-allow-methods", ",".join(settings.allowed_methods)),
            ("access-control-allow-headers", ",".join(settings.allowed_headers)),
            *self._of_both(request),
        ]
        if settings.allow_private_network and request.get(_PRIVATE) == "true":
            headers.append(("access-control-allow-private-network", "true"))
        return headers

    def _of_both(self, request: Mapping[str, str]) -> Headers:
        headers: Headers = []
        if self._is_open:
            headers.append(("access-control-allow-origin", "*"))
        else:
            headers.append(("vary", "origin"))
            origin = request.get("Origin")
            if origin in self._settings.allowed_origins:
                headers.append(("access-control-allow-origin", str(origin)))
        if self._settings.allow_credentials:
            headers.append(("access-control-allow-credentials", "true"))
        return headers
