"""Root's password of a managed broker: rotated, imported, followed, recovered."""

import pytest

from iggy_client import LinkError
from iggy_operator.cluster import Ref, ServerFailedError
from managed_world import BROKER, POD, ROOT, ManagedWorld, run_managed, started
from planted_faults import Made
from troubled_lives import Lives, concerns, live

FIRST, SECOND = "2026-05-01T12:00:00Z", "2026-06-01T12:00:00Z"
EVERY = 3  # all calls take long, and say the same


def agrees(world: ManagedWorld) -> bool:
    """Broker, its volume and our Secret have one password, and nothing waits."""
    password = world.secret("main-root", "password")
    is_known = world.root() == (world.broker.username, password)
    waits = "main-root-next" in world.cluster.names("Secret")
    return world.broker.password == password and is_known and not waits


def test_roots_password_is_rotated_once_when_an_annotation_says_so() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        stream = world.give_stream()
        await world.go(10)
        first, pod = world.secret("main-root", "password"), world.uid(POD)

        world.cluster.annotate(BROKER, "rotate-password-at", FIRST)
        await world.go(10)
        second = world.secret("main-root", "password")
        await world.go(130)
        world.start()
        await world.resync()
        await world.go(130)

        assert first != second == world.secret("main-root", "password")
        assert agrees(world)
        assert world.uid(POD) == pod, "no restart"
        assert world.says(BROKER) == world.says(stream) == ("True", "Synced")
        assert "PasswordChanged" in [event.reason for event in world.cluster.events]
        assert second not in str(world.status(BROKER)) + str(world.cluster.events)
        world.cluster.annotate(BROKER, "rotate-password-at", SECOND)
        await world.go(130)
        assert world.secret("main-root", "password") != second
        assert agrees(world)

    run_managed(scenario)


def test_a_rotation_in_the_future_waits_and_nonsense_is_told() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        first = world.secret("main-root", "password")
        world.cluster.annotate(BROKER, "rotate-password-at", "2099-01-01T00:00:00Z")
        await world.go(130)
        assert world.secret("main-root", "password") == first

        world.cluster.annotate(BROKER, "rotate-password-at", "tomorrow")
        await world.go(10)

        assert world.says(BROKER, "CredentialsReady") == ("False", "Unsupported")
        assert "rotate-password-at" in world.message(BROKER, "CredentialsReady")
        assert world.says(BROKER) == ("True", "Synced"), "it serves all the same"

    run_managed(scenario)


def test_a_new_broker_with_an_old_annotation_is_not_rotated_at_once() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_managed()
        world.cluster.annotate(BROKER, "rotate-password-at", FIRST)
        await world.resync()
        first = world.secret("main-root", "password")
        await world.go(130)

        assert world.secret("main-root", "password") == first
        assert agrees(world)

    run_managed(scenario)


def test_a_sleeping_or_paused_broker_is_rotated_when_it_is_back() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        first = world.secret("main-root", "password")
        world.cluster.change_spec(BROKER, hibernate=True)
        world.cluster.annotate(BROKER, "rotate-password-at", FIRST)
        await world.go(130)
        world.cluster.annotate(BROKER, "paused", "true")
        world.cluster.change_spec(BROKER, hibernate=False)
        await world.go(130)
        assert world.secret("main-root", "password") == first

        world.cluster.annotate(BROKER, "paused", None)
        await world.go(130)

        assert world.secret("main-root", "password") != first
        assert agrees(world)

    run_managed(scenario)


def test_an_imported_password_is_followed_and_its_secret_never_written() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("ours", username="boss", password="first-of-ours")
        await started(world, rootCredentialsSecretName="ours")
        pod = world.uid(POD)

        world.give_secret("ours", username="boss", password="second-of-ours")
        version = world.cluster.objects[Ref("Secret", "shop", "ours")]["metadata"]
        world.start()  # what was known is not in anybody's memory
        await world.resync()
        await world.go(130)

        assert world.broker.password == "second-of-ours"
        assert agrees(world)
        assert world.uid(POD) == pod
        assert world.says(BROKER, "CredentialsReady") == ("True", "Synced")
        assert world.status(BROKER)["credentials"] == {"rootSecretName": "ours"}
        assert world.cluster.objects[Ref("Secret", "shop", "ours")]["metadata"] == version

    run_managed(scenario)


def test_an_imported_password_is_followed_within_a_minute() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("ours", username="boss", password="first-of-ours")
        await started(world, rootCredentialsSecretName="ours")
        await world.go(61)

        world.give_secret("ours", username="boss", password="second-of-ours")
        await world.go(40)

        assert world.broker.password == "second-of-ours"

    run_managed(scenario)


@pytest.mark.parametrize(
    ("values", "reason", "words"),
    [
        ({"username": "boss", "password": "ab"}, "SecretInvalid", "3 to 100 bytes"),
        ({"username": "other", "password": "long-enough"}, "SecretInvalid", "is called boss"),
    ],
    ids=["too short", "another name"],
)
def test_an_imported_password_that_cannot_be_had_is_told_and_the_broker_goes_on(
    values: dict[str, str], reason: str, words: str
) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("ours", username="boss", password="first-of-ours")
        await started(world, rootCredentialsSecretName="ours")
        world.give_secret("ours", **values)
        await world.go(130)

        assert world.says(BROKER, "CredentialsReady") == ("False", reason)
        assert words in world.message(BROKER, "CredentialsReady")
        assert world.says(BROKER) == ("True", "Synced")
        assert world.broker.password == "first-of-ours"
        world.give_secret("ours", username="boss", password="third-of-ours")
        await world.go(130)
        assert world.says(BROKER, "CredentialsReady") == ("True", "Synced")
        assert agrees(world)

    run_managed(scenario)


def test_a_broker_may_move_from_a_generated_to_an_imported_password_and_back() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.cluster.objects[POD]["metadata"]["uid"]
        world.give_secret("ours", username="iggy", password="first-of-ours")
        world.cluster.change_spec(BROKER, rootCredentialsSecretName="ours")
        await world.go(130)
        assert world.broker.password == "first-of-ours"

        spec = dict(world.spec(BROKER))
        del spec["rootCredentialsSecretName"]
        world.cluster.put({**world.cluster.objects[BROKER], "spec": spec})
        world.cluster.remove(Ref("Secret", "shop", "ours"))
        await world.go(130)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.secret("main-root", "password") == "first-of-ours"
        assert agrees(world)
        assert world.cluster.objects[POD]["metadata"]["uid"] == pod, "nothing was restarted"

    run_managed(scenario)


def test_a_password_that_somebody_else_has_changed_is_told_and_can_be_given() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.broker.change_root("by-hand")
        world.start()
        await world.resync()
        await world.go(130)
        assert world.says(BROKER) == world.says(BROKER, "CredentialsReady")
        assert world.says(BROKER) == ("False", "Unauthorized")
        assert "Secret main-root" in world.message(BROKER)

        world.give_secret("ours", username="iggy", password="by-hand")
        world.cluster.change_spec(BROKER, rootCredentialsSecretName="ours")
        await world.go(400)

        assert world.says(BROKER) == world.says(BROKER, "CredentialsReady") == ("True", "Synced")
        assert agrees(world)
        assert "by-hand" not in str(world.status(BROKER)) + str(world.cluster.events)

    run_managed(scenario)


def test_a_broker_goes_on_without_the_secret_that_was_imported() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("ours", username="boss", password="first-of-ours")
        await started(world, rootCredentialsSecretName="ours")
        world.cluster.remove(Ref("Secret", "shop", "ours"))
        world.cluster.remove(POD)
        await world.go(130)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "CredentialsReady") == ("False", "SecretNotFound")
        assert world.broker.password == "first-of-ours"
        world.give_secret("ours", username="boss", password="second-of-ours")
        await world.go(130)
        assert world.says(BROKER, "CredentialsReady") == ("True", "Synced")
        assert agrees(world)

    run_managed(scenario)


@pytest.mark.parametrize("name", ["main-root", "main-root-next"])
def test_names_of_the_operator_cannot_be_imported(name: str) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_managed(rootCredentialsSecretName=name)
        await world.resync()

        assert world.says(BROKER) == ("False", "Unsupported")
        assert "name of the operator's own" in world.message(BROKER)
        assert world.cluster.names("Secret") == []

    run_managed(scenario)


def test_a_secret_of_somebody_else_is_never_taken_for_the_next_password() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.give_secret("main-root-next", password="of-somebody-else")
        world.cluster.annotate(BROKER, "rotate-password-at", FIRST)
        await world.go(130)

        assert world.says(BROKER, "CredentialsReady") == ("False", "NameConflict")
        assert world.secret("main-root-next", "password") == "of-somebody-else"
        world.cluster.remove(Ref("Secret", "shop", "main-root-next"))
        await world.go(130)
        assert agrees(world)

    run_managed(scenario)


async def life(world: ManagedWorld) -> None:
    """Make it, rotate twice, restart, import, change."""
    world.give_managed()
    await live_on(world)
    first = world.secret("main-root", "password")
    for time in (FIRST, SECOND):
        world.cluster.annotate(BROKER, "rotate-password-at", time)
        await live_on(world)
    assert world.secret("main-root", "password") != first
    world.cluster.remove(POD)
    await live_on(world)
    world.give_secret("ours", username="iggy", password="first-of-ours")
    world.cluster.change_spec(BROKER, rootCredentialsSecretName="ours")
    await live_on(world)
    world.give_secret("ours", username="iggy", password="second-of-ours")
    await live_on(world)
    assert world.broker.password == "second-of-ours"
    assert len(world.sets.started) == 2  # made, removed by hand
    assert ROOT in world.cluster.objects


async def live_on(world: ManagedWorld) -> None:
    """And root's password is everywhere the same then."""
    await live(world)
    assert world.says(BROKER) == world.says(BROKER, "CredentialsReady") == ("True", "Synced")
    assert agrees(world)


LIVES = Lives(run_managed, life)


def test_a_kill_after_every_single_write_heals() -> None:
    LIVES.check_kills(more_than=20)


@pytest.mark.parametrize("fault", [ServerFailedError("500"), LinkError("the connection broke")])
def test_a_lost_answer_to_any_call_heals(fault: Exception) -> None:
    def may_hit(call: Made) -> bool:
        return concerns(fault, call) and (call.is_write or isinstance(fault, LinkError))

    LIVES.check_faults(fault, may_hit, lost=True, every=EVERY, more_than=10)
