"""The Secrets of a user: what they hold, and never one that is not ours.

The broker changes a password only for those who know the current one. So the Secret holds the
current one, and a new one is kept in a second Secret until the broker has it: a crash at any point
leaves one of the two that is right.
"""

import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from iggy_client import Tls
from iggy_operator import API_GROUP
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import Login
from iggy_operator.cache import Entry
from iggy_operator.cluster import NotFoundError, Object, Ref
from iggy_operator.desired.metadata import label_value, owner_of
from iggy_operator.desired.secrets import SecretShape, user_secret
from iggy_operator.kinds.common import World
from iggy_operator.names import CA_KEY
from iggy_operator.objects import is_owned, ref_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker, User

ROTATED: Final = f"{API_GROUP}/rotated-at"
"""On the Secret: the annotation of the user that its password followed last."""
_AGAIN_S: Final = 5.0
"""A Secret of an object that is just being deleted is gone soon."""


def binding_values(broker: Broker, way: Login, username: str, password: str) -> dict[str, str]:
    """What programs find in the Secret. `way`: how the operator itself gets to the broker."""
    host, _, port = way.address.rpartition(":")
    login = f"{quote(username, safe='')}:{quote(password, safe='')}"
    values = {
        "type": "iggy",
        "provider": "iggykube",
        "host": host,
        "port": port,
        "username": username,
        "password": password,
        "uri": f"iggy://{login}@{way.address}{_options(way.tls)}",
    }
    if way.tls is not None and way.tls.ca_pem:
        values[CA_KEY] = way.tls.ca_pem
    if http := broker.spec.get("external", {}).get("http"):
        values["http-url"] = http
    return values


def _options(tls: Tls | None) -> str:
    """As other Iggy clients read them (Iggy SDK 0.9: connection strings)."""
    if tls is None:
        return ""
    return "?tls=true" + (f"&tls_domain={tls.server_name}" if tls.server_name else "")


def shape_of(entry: Entry) -> SecretShape:
    """The user's Secret without its values."""
    assert isinstance(entry.resource, User)
    return user_secret(entry.resource, owner_of(entry.value))


def waiting_shape(entry: Entry) -> SecretShape:
    """The Secret of a password that the broker may not have yet."""
    shape = shape_of(entry)
    metadata = {
        **shape.manifest["metadata"],
        "name": label_value(f"{entry.ref.name}-iggy-next"),
    }
    manifest = {**shape.manifest, "type": "Opaque", "metadata": metadata}
    return SecretShape(manifest, ("password",))


async def own_secret(world: World, entry: Entry, shape: SecretShape) -> Object | None:
    """The Secret if there is one. Raises Blocked if it is somebody else's."""
    ref = Ref("Secret", entry.ref.namespace, shape.name)
    try:
        value = await world.cluster.get(ref)
    except NotFoundError:
        return None
    if not is_owned(value, entry.value):
        raise Blocked(
            Reason.NAME_CONFLICT,
            f"Secret {shape.name} exists and is not ours: remove it, or choose another name "
            "in secretTemplate",
            again_s=_AGAIN_S,
        )
    return value


async def write(
    world: World,
    shape: SecretShape,
    values: Mapping[str, str],
    *,
    old: Object | None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """The Secret with these values; written only if it differs from `old`, which is ours."""
    wanted = shape.filled(values)
    metadata = {**wanted["metadata"]}
    if own := {**metadata.get("annotations", {}), **(annotations or {})}:
        metadata["annotations"] = own
    wanted = {**wanted, "metadata": metadata}
    if old is None:
        return await world.cluster.create(wanted)
    if _says(old, wanted):
        return old
    return await world.cluster.apply({**wanted, "metadata": {**metadata, "uid": uid_of(old)}})


async def remove(world: World, secret: Object) -> None:
    """A Secret of ours goes."""
    try:
        await world.cluster.delete(ref_of(secret), uid=uid_of(secret))
    except NotFoundError:
        return


def value_of(secret: Object, key: str) -> str | None:
    """A value of a Secret that we wrote; None if somebody has damaged it."""
    try:
        return base64.b64decode(secret["data"][key], validate=True).decode()
    except (KeyError, ValueError):
        return None


def _says(old: Object, wanted: Object) -> bool:
    mine, theirs = wanted["metadata"], old["metadata"]
    return old.get("data") == wanted["data"] and all(
        mine.get(part, {}).items() <= theirs.get(part, {}).items()
        for part in ("labels", "annotations")
    )
