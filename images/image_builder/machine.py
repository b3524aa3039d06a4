"""What this machine knows about reaching packages, handed to a build without leaving a trace in it.

Indexes, proxies and certificates are read from where pip, Maven, Java and the shell keep them, and
become secrets of the build (`RUN --mount=type=secret` in the Dockerfile) or proxy arguments.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PIP_SETTINGS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
_CERTIFICATES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian and its relatives, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora and its relatives
    "/etc/ssl/cert.pem",  # macOS, Alpine
)
_JAVA_CERTIFICATES: Final = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")


def proxy_arguments() -> Iterator[str]:
    """`--build-arg`s that every builder knows and keeps out of the image."""
    for name in PROXIES:
        if value := os.environ.get(name):
            yield from ("--build-arg", f"{name}={value}")


def secrets(scratch: Path) -> Iterator[str]:
    """`--secret`s for the Dockerfile; what has to be written goes to `scratch`."""
    pip = scratch / "pip.conf"
    pip.write_text("[global]\n" + "".join(f"{line}\n" for line in _pip_lines()))
    pip.chmod(0o600)
    named = [os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if os.environ.get(name)]
    found = {
        "pip": pip,
        "ca": _first([*named, *_CERTIFICATES]),
        "java-ca": _first(_JAVA_CERTIFICATES),
        "maven": _first([str(Path.home() / ".m2/settings.xml")]),
    }
    for secret, path in found.items():
        if path is not None:
            yield from ("--secret", f"id={secret},src={path}")


def _first(paths: Iterable[str]) -> Path | None:
    return next((path for path in map(Path, paths) if path.is_file()), None)


def _pip_lines() -> Iterator[str]:
    """pip's settings, from its files and from variables alike."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    yield from (f"{key} = {settings[key]}" for key in _PIP_SETTINGS if settings.get(key))
