"""The server itself over HTTP: figures, clients, cluster, options, metrics, support bundle."""

from __future__ import annotations

import time
from typing import Final

from iggy_broker.net.http import bodies, shapes_system
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.problems import PATH_PREFIX, Refusal, unreadable
from iggy_broker.net.http.query import U32_MAX, number
from iggy_broker.net.http.replies import JSON, TEXT, Reply, json_reply
from iggy_broker.net.http.routing import Route, Success
from iggy_wire import replies, requests

_SCOPES: Final = {"topic": 1, "stream": 2, "user": 3}
_NO_SCOPE: Final = 0  # which the command refuses
_COMPRESSIONS: Final = ("Stored", "Deflated", "Bzip2", "Zstd", "Lzma", "Xz")  # codes from 1
_ALL: Final = "All"
_FILES: Final = {
    "FilesystemOverview": 1, "ProcessList": 2, "ResourceUsage": 3, "Test": 4, "ServerLogs": 5,
    "ServerConfig": 6, _ALL: 100,
}  # fmt: skip
_EMPTY_ZIP: Final = b"PK\x05\x06" + bytes(18)  # an archive of no files
_ZIP: Final = "application/zip"


async def ping(call: Call) -> Reply:
    """Alive."""
    del call
    return Reply(200, b"pong", TEXT)


async def get_stats(call: Call) -> Reply:
    """Figures of the broker."""
    found = replies.Stats.decode(await call.run(requests.GetStats()))
    return json_reply(shapes_system.stats(found))


async def get_clients(call: Call) -> Reply:
    """Logged-in connections of all shards. Who asks over HTTP is none."""
    found = replies.Clients.decode(await call.run(requests.GetClients()))
    return json_reply([shapes_system.client(one) for one in found.clients])


async def get_client(call: Call) -> Reply:
    """One connection."""
    client_id = number(call.values[0], U32_MAX)
    if client_id is None:
        text = f"{PATH_PREFIX}client `{call.values[0]}`: write a number, u32"
        raise Refusal(unreadable(400, text, as_json=False))
    found = await call.find(requests.GetClient(client_id), replies.ClientDetails)
    return json_reply(shapes_system.client_details(found))


async def get_cluster(call: Call) -> Reply:
    """This one node."""
    found = replies.Cluster.decode(await call.run(requests.GetClusterMetadata()))
    return json_reply(shapes_system.cluster(found, is_strict=call.is_strict))


async def get_options(call: Call) -> Reply:
    """The catalogue of a scope."""
    scope = _SCOPES.get(call.values[0], _NO_SCOPE)
    found = replies.Catalog.decode(await call.run(requests.DescribeOptions(scope)))
    return json_reply(shapes_system.catalogue(found, is_strict=call.is_strict))


async def get_metrics(call: Call) -> Reply:
    """What the monitoring listener shows, for who is logged in."""
    return await call.app.metrics()


async def make_snapshot(call: Call) -> Reply:
    """The support bundle as a ZIP archive."""
    body: bodies.Snapshot = call.body
    if body.compression not in _COMPRESSIONS:
        raise bodies.wrong_shape(f"compression: unknown variant `{body.compression}`")
    unknown = [one for one in body.snapshot_types if one not in _FILES]
    if unknown:
        raise bodies.wrong_shape(f"snapshot_types: unknown variant `{unknown[0]}`")
    kinds = tuple(_FILES[one] for one in body.snapshot_types)
    request = requests.GetSnapshot(_COMPRESSIONS.index(body.compression) + 1, kinds)
    if kinds:
        archive = await call.run(request)
    else:
        call.app.commands.check_access(call.asker, request.command, request)
        archive = _EMPTY_ZIP
    name = time.strftime("iggy_snapshot_%Y%m%d_%H%M%S.zip", time.gmtime())
    headers = (("content-disposition", f'attachment; filename="{name}"'),)
    return Reply(200, archive, _ZIP, headers)


async def get_openapi(call: Call) -> Reply:
    """The description of this API."""
    return Reply(200, call.app.openapi(), JSON)


ROUTES: Final = (
    Route("GET", "/ping", ping, "Is the server there?", Success(200, None, TEXT),
          is_public=True, is_consistent=False),
    Route("GET", "/openapi.json", get_openapi, "This description.", Success(200, dict),
          is_public=True, is_consistent=False),
    Route("GET", "/stats", get_stats, "Figures of the server.", Success(200, shapes_system.Stats)),
    Route("GET", "/clients", get_clients, "All connections.",
          Success(200, list[shapes_system.Client])),
    Route("GET", "/clients/{client_id}", get_client, "One connection.",
          Success(200, shapes_system.ClientDetails)),
    Route("GET", "/cluster/metadata", get_cluster, "All servers.",
          Success(200, shapes_system.Cluster)),
    Route("GET", "/options/{scope}", get_options, "The options of topic, stream or user.",
          Success(200, list[shapes_system.OptionDescription])),
    Route("POST", "/snapshot", make_snapshot, "A support bundle.", Success(200, None, _ZIP),
          bodies.Snapshot),
)  # fmt: skip


def metrics_route(path: str) -> Route:
    """The route of metrics, whose path is a setting."""
    success = Success(200, None, TEXT)
    return Route("GET", path, get_metrics, "Metrics.", success, is_consistent=False)
