"""Libraries without their clients' halves, in interpreters of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVERS = "import iggy_broker.net.http.server, iggy_broker.net.monitoring, iggy_broker.net.quic"
LEAN = "lean_imports.import_aiohttp(); lean_imports.import_aioquic()"
HEAVY = "{'aiohttp.client', 'aiohttp.web', 'OpenSSL.SSL'} & set(sys.modules)"
ALL_THERE = (
    "import aiohttp.web, certifi, service_identity, aioquic.tls; from OpenSSL import crypto, SSL; "
    "assert aiohttp.ClientSession and aiohttp.web.Application and aiohttp.__version__; "
    "assert certifi.where() and service_identity.VerificationError; "
    "assert aioquic.tls.crypto.X509Store is crypto.X509Store and SSL.Context"
)


@pytest.mark.parametrize(
    "lines",
    [
        f"{LEAN}; {SERVERS}; assert not {HEAVY}; {ALL_THERE}; assert {HEAVY}",
        f"{SERVERS}; {LEAN}; {ALL_THERE}",
        # As if the library took more from its package while it is imported.
        f"import re; lean_imports._VERSION = re.compile('$^'); {LEAN}; {SERVERS}; {ALL_THERE}",
    ],
    ids=["put off", "too late", "whole, where it must be"],
)
def test_what_is_put_off_is_there_when_it_is_asked_for(lines: str) -> None:
    code = f"import sys; from iggy_broker import lean_imports; {lines}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
