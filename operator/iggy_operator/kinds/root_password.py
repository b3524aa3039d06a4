"""Root's password of a managed broker: what the volume knows, and what it shall know.

The broker changes a password only for those who know the current one. So one Secret of ours holds
what the volume knows; a new one is somebody's own Secret, or a second of ours, until the broker has
it. A crash at any point leaves one of the two that is right.
"""

from dataclasses import dataclass
from typing import Final

from iggy_client import access_calls
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, BrokerRefusedError
from iggy_operator.brokers import is_root_secret_ours, read_secret, secret_text
from iggy_operator.cache import Entry
from iggy_operator.cluster import Object, Ref
from iggy_operator.decide.users import is_rotation_due
from iggy_operator.desired.metadata import owner_of
from iggy_operator.desired.secrets import SecretShape, root_secret, root_secret_next
from iggy_operator.kinds import user_secrets
from iggy_operator.kinds.broker_children import foreign, found
from iggy_operator.kinds.common import World
from iggy_operator.objects import annotation, ref_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker
from iggy_wire.errors import ErrorCode

USERNAME: Final = "iggy"
"""Of root, where nobody names another."""


@dataclass(frozen=True, slots=True)
class Root:
    """The root user of one broker."""

    name: str
    """Of the Secret that people look at."""
    known: Object | None
    """Our Secret; None only where it may not be made."""
    username: str = ""
    given: str = ""
    """The password that somebody's own Secret asks for."""
    problem: Blocked | None = None
    """What is wrong with that Secret. The broker goes on with what it has."""


async def prepare(world: World, entry: Entry, *, may_act: bool) -> Root:
    """Before any pod: a Secret that the first start can use. Raises Blocked, ClusterError."""
    broker = entry.resource
    assert isinstance(broker, Broker)
    shape = root_secret(broker, owner_of(entry.value))
    known = await _own(world, entry, shape)
    username, given, name, problem = USERNAME, "", shape.name, None
    if own := broker.spec.get("rootCredentialsSecretName"):
        name = own
        try:
            secret = await read_secret(world.cluster, entry.ref.namespace, own)
            username, given = secret_text(secret, "username"), secret_text(secret, "password")
        except Blocked as error:
            if known is None:
                raise
            problem = error
    if known is None and may_act:
        values = {"username": username, "password": given or world.new_password()}
        known = await _write(world, entry, values, old=None)
    if known is not None:
        for key in ("username", "password"):
            secret_text(known, key)
    return Root(name, known, username, given, problem)


async def follow(world: World, entry: Entry, root: Root, admin: BrokerAdmin) -> bool:
    """Whether the broker has another password now. Raises Blocked, BrokerError, ClusterError."""
    assert root.known is not None, "the broker runs with it"
    username, current = (secret_text(root.known, key) for key in ("username", "password"))
    if root.problem is not None:
        raise root.problem
    if root.given and root.username != username:
        text = f"Secret {root.name}: root of this volume is called {username}: that is the username"
        raise Blocked(Reason.SECRET_INVALID, text)
    wanted = root.given or await _next(world, entry, root.known)
    if wanted and wanted != current:
        await _change(admin, username, current, wanted)
        await _write(world, entry, {"username": username, "password": wanted}, old=root.known)
        world.brokers.renew(entry.ref)
    await _forget_next(world, entry)
    return bool(wanted) and wanted != current


async def recover(world: World, entry: Entry, root: Root, admin: BrokerAdmin) -> bool:
    """The broker does not know the password that we thought it did: whether another one fits.

    Raises BrokerError, ClusterError.
    """
    assert root.known is not None, "the broker runs with it"
    username, current = (secret_text(root.known, key) for key in ("username", "password"))
    waiting = await _own(world, entry, _next_shape(entry))
    kept = None if waiting is None else user_secrets.value_of(waiting, "password")
    for password in filter(None, (root.given, kept)):
        if password != current and await _fits(admin, username, password):
            values = {"username": username, "password": password}
            await _write(world, entry, values, old=root.known)
            world.brokers.renew(entry.ref)
            await _forget_next(world, entry)
            return True
    return False


async def _own(world: World, entry: Entry, shape: SecretShape) -> Object | None:
    secret = await found(world.cluster, Ref("Secret", entry.ref.namespace, shape.name))
    if secret is not None and not is_root_secret_ours(secret, entry):
        raise foreign(ref_of(secret))
    return secret


async def _write(
    world: World, entry: Entry, values: dict[str, str], *, old: Object | None
) -> Object:
    """What the volume knows now, and which rotation that has followed."""
    assert isinstance(entry.resource, Broker)
    shape = root_secret(entry.resource, owner_of(entry.value))
    asked = annotation(entry.value, "rotate-password-at")
    marks = {user_secrets.ROTATED: asked} if asked else {}
    return await user_secrets.write(world, shape, values, old=old, annotations=marks)


async def _next(world: World, entry: Entry, known: Object) -> str:
    """A new password that is due, kept before the broker is told; empty if none is."""
    waiting = await _own(world, entry, _next_shape(entry))
    if waiting is not None and (kept := user_secrets.value_of(waiting, "password")):
        return kept
    asked = annotation(entry.value, "rotate-password-at")
    done = known["metadata"].get("annotations", {}).get(user_secrets.ROTATED, "")
    try:
        is_due = is_rotation_due(asked, done, now_s=world.clock.now_s())
    except ValueError as error:
        raise Blocked(Reason.UNSUPPORTED, f"annotation rotate-password-at: {error}") from None
    if not is_due:
        return ""
    fresh = world.new_password()
    await user_secrets.write(world, _next_shape(entry), {"password": fresh}, old=waiting)
    return fresh


def _next_shape(entry: Entry) -> SecretShape:
    assert isinstance(entry.resource, Broker)
    return root_secret_next(entry.resource, owner_of(entry.value))


async def _forget_next(world: World, entry: Entry) -> None:
    if (waiting := await _own(world, entry, _next_shape(entry))) is not None:
        await user_secrets.remove(world, waiting)


async def _change(admin: BrokerAdmin, username: str, current: str, wanted: str) -> None:
    try:
        await admin.ask(access_calls.change_password(username, current, wanted))
    except BrokerRefusedError as error:
        if error.code == ErrorCode.INVALID_PASSWORD:
            text = "root's password must have 3 to 100 bytes: write another into the Secret"
            raise Blocked(Reason.SECRET_INVALID, text) from None
        if error.code != ErrorCode.INVALID_CREDENTIALS or not await _fits(admin, username, wanted):
            raise


async def _fits(admin: BrokerAdmin, username: str, password: str) -> bool:
    visitor = await admin.visit(username, password)
    if visitor is None:
        return False
    await visitor.close()
    return True
