"""The samples of docs/transports.md: a client with TLS, a file of settings."""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

from apache_iggy import IggyClient

from broker_process import PASSWORD, running_broker
from iggy_broker import config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "transports.md").read_text()


def sample(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_a_client_trusts_the_certificate_that_the_broker_made(tmp_path: Path) -> None:
    lines = textwrap.indent(sample("python") + "return client", "    ")
    code = f"async def connected(port, data, password):\n{lines}"
    names: dict[str, Any] = {"IggyClient": IggyClient}
    exec(code, names)

    async def run(port: int, data: Path) -> int:
        client = await names["connected"](port, data, PASSWORD)
        await client.create_stream("shop")
        return len(await client.get_streams())

    settings = {"IGGY_TCP_TLS_ENABLED": "true"}
    with running_broker(tmp_path, shards=1, settings=settings) as broker:
        assert asyncio.run(run(broker.tcp_port, broker.data)) == 1


def test_the_file_of_settings_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(sample("toml"))

    loaded = config.load(path, {"IGGY_CONFIG_STRICT": "true"})

    assert loaded.warnings == ()
    assert loaded.config.tcp.tls.enabled
    assert loaded.config.tcp.tls.cert_file == "/etc/iggy/tls.crt"
