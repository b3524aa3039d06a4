"""Whether something answers: one short question each, and no waiting."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

WITHIN_S = 2.0
IP_FREEBIND = 15  # from linux/in.h; the socket module does not have it


def http_ok(url: str) -> bool:
    return _answers(url, context=None)


def https_ok(url: str) -> bool:
    """As `http_ok`; whose certificate it is does not matter, since nothing is said to it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _answers(url, context)


def socket_open(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WITHIN_S)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def port_taken(address: str, port: int) -> bool:
    """Whether somebody listens there, on all addresses perhaps. Nothing is sent: it only binds."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The bridge may not be there yet.
        probe.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return True
    return False


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    # No proxy of the environment: these are addresses of this machine.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=WITHIN_S) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException, urllib.error.URLError):
        return False
