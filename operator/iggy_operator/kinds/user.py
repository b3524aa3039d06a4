"""IggyUser: a user with a password in a Secret, permissions by name, access tokens."""

from dataclasses import dataclass
from typing import Any, Final

from iggy_client import access_calls
from iggy_operator import brokers
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, BrokerRefusedError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Object
from iggy_operator.conditions import CREDENTIALS_READY, READY, SYNCED, Condition, condition
from iggy_operator.decide.users import in_order, is_rotation_due, wanted_permissions
from iggy_operator.kinds import common, user_secrets, user_tokens
from iggy_operator.kinds.common import Note, Release, Verdict, World
from iggy_operator.objects import annotation, has_finalizer, status_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker, User
from iggy_operator.status import Report
from iggy_operator.units import time_text
from iggy_wire.errors import ErrorCode
from iggy_wire.permissions import Permissions
from iggy_wire.replies import UserDetails

UNRESOLVED_MAX: Final = 32  # as the schema says
_ACTIVE: Final = 1  # Iggy protocol 0.11


@dataclass(frozen=True, slots=True)
class _Case:
    """One user and everything that a pass has found out about it."""

    world: World
    entry: Entry
    user: User
    broker: Broker
    admin: BrokerAdmin


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked, BrokerError, ClusterError."""
    user = entry.resource
    assert isinstance(user, User)
    item = await common.broker_for(world, entry, user.broker, may_act=may_act)
    common.check_owner(world, entry, item)
    assert isinstance(item.resource, Broker)
    admin = await world.brokers.admin(world.cluster, item)
    if user.username == admin.login.username:
        text = f"{item.ref} is managed as user {user.username}: choose another username"
        raise Blocked(Reason.CONFLICT, text)
    case = _Case(world, entry, user, item.resource, admin)
    if not may_act:
        return await _seen(case)
    secret, source, notes = await _credentials(case)
    details = await admin.ask(access_calls.get_user(user.username))
    if details is None:
        raise Blocked(Reason.MISSING, f"user {user.username} was deleted just now", again_s=1)
    await _set_active(case, details)
    unresolved = await _set_permissions(case, details)
    password = user_secrets.value_of(secret, "password")
    assert password is not None, "just written"
    tokens = await user_tokens.renew(world, entry, admin, details.user, password)
    fields = {
        "username": user.username,
        "userId": details.user.id,
        "secretName": secret["metadata"]["name"],
        "passwordSecretVersion": source["metadata"]["resourceVersion"],
        "unresolved": list(unresolved[:UNRESOLVED_MAX]) or None,
        "accessTokens": [*tokens] or None,
    }
    if notes:
        fields["lastRotationTime"] = time_text(world.clock.now_s())
    again_s = common.IMPORTED_S if "passwordSecretRef" in user.spec else None
    return Verdict(Report(_conditions(user, unresolved), fields), notes=notes, again_s=again_s)


async def _seen(case: _Case) -> Verdict:
    """Of a user that must be left alone: what is there, and what is not as it should be.

    Raises Blocked, BrokerError, ClusterError.
    """
    user, shape = case.user, user_secrets.shape_of(case.entry)
    await _imported(case)
    secret = await user_secrets.own_secret(case.world, case.entry, shape)
    credentials = condition(CREDENTIALS_READY, True, Reason.SYNCED)
    if secret is None or user_secrets.value_of(secret, "password") is None:
        text = f"there is no Secret {shape.name} with the user's password"
        credentials = condition(CREDENTIALS_READY, False, Reason.SECRET_NOT_FOUND, text)
    details = await case.admin.ask(access_calls.get_user(user.username))
    wanted, unresolved = await _wanted_permissions(case)
    if details is None:
        text = f"user {user.username} is not in the broker"
        synced = condition(SYNCED, False, Reason.MISSING, text)
    elif _is_active(details) != user.is_active or in_order(details.permissions) != wanted:
        text = "permissions or active differ in the broker: nothing is done while it is paused"
        synced = condition(SYNCED, False, Reason.DRIFTED, text)
    else:
        synced = _synced(unresolved)
    # Names that are there by now are not granted yet: sinks go on waiting by `unresolved`.
    return Verdict(Report((credentials, synced)))


async def release(world: World, entry: Entry) -> Release:
    """The object is being deleted, and the user with it. Secrets go with their owner."""
    user = entry.resource
    assert isinstance(user, User)
    if not has_finalizer(entry.value) or user.deletion_policy == "Retain":
        return Release()
    admin = await common.broker_for_release(world, entry, user.broker)
    if admin is None or not common.is_owner(world, entry, user.broker):
        return Release()
    details = await admin.ask(access_calls.get_user(user.username))
    known = status_of(entry.value).get("userId")
    if details is None:
        return Release()
    is_own = user.username == admin.login.username
    if is_own or known not in (None, details.user.id):
        why = "the operator itself logs in with it" if is_own else "somebody else has made it anew"
        text = f"user {user.username} stays in the broker: {why}"
        return Release(notes=(Note("Retained", text, is_warning=False),))
    if (
        known is None
        and await user_secrets.own_secret(world, entry, user_secrets.shape_of(entry)) is None
    ):
        return Release()  # we make the Secret before the user: this one is not ours
    await admin.ask(access_calls.delete_user(user.username))
    return Release()


async def _credentials(case: _Case) -> tuple[Object, Object, tuple[Note, ...]]:
    """The user's Secret, the Secret that the password is from, and what there is to tell.

    The user exists then and has that password.
    """
    world, entry, user = case.world, case.entry, case.user
    shape = user_secrets.shape_of(entry)
    secret = await user_secrets.own_secret(world, entry, shape)
    details = await case.admin.ask(access_calls.get_user(user.username))
    current = user_secrets.value_of(secret, "password") if secret is not None else None
    imported = await _imported(case)
    given = brokers.secret_text(imported, user.spec["passwordSecretRef"]["key"]) if imported else ""
    notes: tuple[Note, ...] = ()
    if details is None or current is None:
        wanted = given or current or world.new_password()
        if details is not None:
            await _check_adoption(case, given)
        # Finalizer, Secret, user: whatever is there after a crash can be told to be ours.
        await common.hold(world, entry, user.deletion_policy)
        secret = await _write(case, wanted, old=secret)
        if details is None:
            await case.admin.ask(_creation(user, wanted))
    else:
        await common.hold(world, entry, user.deletion_policy)
        wanted = given or await _next_password(case, secret) or current
        if wanted != current:
            await _change(case, current, wanted)
            text = "the password was changed"
            notes = (Note("PasswordChanged", text, is_warning=False),)
        secret = await _write(case, wanted, old=secret, is_rotated=wanted != current)
        await _forget_next(case)
    return secret, imported or secret, notes


async def _imported(case: _Case) -> Object | None:
    reference = case.user.spec.get("passwordSecretRef")
    if reference is None:
        return None
    namespace = case.entry.ref.namespace
    return await brokers.read_secret(case.world.cluster, namespace, reference["name"])


async def _check_adoption(case: _Case, given: str) -> None:
    """A user that exists while its Secret does not. Raises Blocked unless its password is known."""
    if given and await _fits(case, given):
        return
    name = case.user.username
    raise Blocked(
        Reason.ALREADY_EXISTS,
        f"user {name} exists in the broker with a password that is not known: name a Secret that "
        "holds it in passwordSecretRef, or delete the user in the broker, to be made anew",
    )


async def _next_password(case: _Case, secret: Object | None) -> str:
    """A new password that is due, kept before the broker is told; empty if none is."""
    assert secret is not None, "the user has one"
    shape = user_secrets.waiting_shape(case.entry)
    waiting = await user_secrets.own_secret(case.world, case.entry, shape)
    if waiting is not None and (kept := user_secrets.value_of(waiting, "password")):
        return kept
    asked = annotation(case.entry.value, "rotate-password-at")
    done = secret["metadata"].get("annotations", {}).get(user_secrets.ROTATED, "")
    try:
        is_due = is_rotation_due(asked, done, now_s=case.world.clock.now_s())
    except ValueError as error:
        raise Blocked(Reason.UNSUPPORTED, f"annotation rotate-password-at: {error}") from None
    if not is_due:
        return ""
    fresh = case.world.new_password()
    await user_secrets.write(case.world, shape, {"password": fresh}, old=waiting)
    return fresh


async def _forget_next(case: _Case) -> None:
    shape = user_secrets.waiting_shape(case.entry)
    if (waiting := await user_secrets.own_secret(case.world, case.entry, shape)) is not None:
        await user_secrets.remove(case.world, waiting)


async def _write(
    case: _Case, password: str, *, old: Object | None, is_rotated: bool = True
) -> Object:
    """The Secret with this password, and which rotation it has followed."""
    asked = annotation(case.entry.value, "rotate-password-at")
    done = (old or {"metadata": {}})["metadata"].get("annotations", {})
    mark = asked if is_rotated else done.get(user_secrets.ROTATED, "")
    values = user_secrets.binding_values(
        case.broker, case.admin.login, case.user.username, password
    )
    shape = user_secrets.shape_of(case.entry)
    marks = {user_secrets.ROTATED: mark} if mark else {}
    return await user_secrets.write(case.world, shape, values, old=old, annotations=marks)


async def _change(case: _Case, current: str, wanted: str) -> None:
    """Another password in the broker, unless it has that one already. Raises Blocked."""
    name = case.user.username
    try:
        await case.admin.ask(access_calls.change_password(name, current, wanted))
    except BrokerRefusedError as error:
        if error.code == ErrorCode.INVALID_PASSWORD:
            text = "the password must have 3 to 100 bytes: write another into the Secret"
            raise Blocked(Reason.SECRET_INVALID, text) from None
        if error.code != ErrorCode.INVALID_CREDENTIALS or not await _fits(case, wanted):
            raise Blocked(
                Reason.SECRET_INVALID,
                f"the broker has neither the old nor the new password of user {name}: delete the "
                "user in the broker, to be made anew",
            ) from error


async def _fits(case: _Case, password: str) -> bool:
    visitor = await case.admin.visit(case.user.username, password)
    if visitor is None:
        return False
    await visitor.close()
    return True


def _creation(user: User, password: str) -> Any:
    return access_calls.create_user(
        user.username, password, active=user.is_active, permissions=None
    )


def _is_active(details: UserDetails) -> bool:
    return details.user.status == _ACTIVE


async def _set_active(case: _Case, details: UserDetails) -> None:
    if _is_active(details) != case.user.is_active:
        name, active = case.user.username, case.user.is_active
        await case.admin.ask(access_calls.update_user(name, username=None, active=active))


async def _set_permissions(case: _Case, details: UserDetails) -> tuple[str, ...]:
    """The names in the grants that are not in the broker."""
    wanted, unresolved = await _wanted_permissions(case)
    if in_order(details.permissions) != wanted:
        await case.admin.ask(access_calls.update_permissions(case.user.username, wanted))
    return unresolved


async def _wanted_permissions(case: _Case) -> tuple[Permissions, tuple[str, ...]]:
    """Grants by number as they are today; the names that are not in the broker."""
    spec = case.user.spec["permissions"]
    streams = {name: stream.id for name, stream in (await case.admin.streams()).items()}
    topics: dict[tuple[str, str], int] = {}
    for entry in spec.get("streams", ()):
        if entry.get("topics") and entry["stream"] in streams:
            found = await case.admin.topics(entry["stream"])
            topics |= {(entry["stream"], name): topic.id for name, topic in found.items()}
    return wanted_permissions(spec, streams, topics)


def _conditions(user: User, unresolved: tuple[str, ...]) -> tuple[Condition, ...]:
    return (
        condition(READY, True, Reason.SYNCED, f"user {user.username} is there"),
        condition(CREDENTIALS_READY, True, Reason.SYNCED),
        _synced(unresolved),
    )


def _synced(unresolved: tuple[str, ...]) -> Condition:
    if not unresolved:
        return condition(SYNCED, True, Reason.SYNCED)
    text = f"not in the broker: {', '.join(unresolved)}; granted as soon as they are"
    return condition(SYNCED, False, Reason.UNRESOLVED_GRANTS, text)
