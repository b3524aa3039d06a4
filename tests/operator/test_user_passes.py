import pytest

from fake_broker import ADDRESS
from iggy_client import LinkError
from iggy_operator.cluster import Ref, ServerFailedError
from iggy_operator.decide.users import is_rotation_due, is_token_due, wanted_permissions
from iggy_operator.objects import FINALIZER
from iggy_wire import requests
from iggy_wire.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from operator_world import OperatorWorld, run_in
from planted_faults import Made
from troubled_lives import Lives, concerns, live

EVERY = 3  # all calls take long, and say the same
SECRET = Ref("Secret", "shop", "fraud-iggy")
READER = {
    "streams": [
        {"stream": "shop", "topics": [{"topic": "orders", "allow": ["ReadTopic", "PollMessages"]}]}
    ]
}


def test_names_become_numbers_and_what_is_not_there_is_told() -> None:
    spec = {
        "global": ["ReadServers"],
        "streams": [
            {"stream": "b", "allow": ["ManageTopics"]},
            {
                "stream": "a",
                "topics": [
                    {"topic": "y", "allow": ["SendMessages"]},
                    {"topic": "x", "allow": ["ManageTopic"]},
                    {"topic": "z", "allow": ["ReadTopic"]},
                ],
            },
            {"stream": "c", "allow": ["ReadStream"]},
        ],
    }

    found = wanted_permissions(spec, {"a": 7, "b": 3}, {("a", "x"): 2, ("a", "y"): 9})

    topics = (TopicPermissions(2, manage_topic=True), TopicPermissions(9, send_messages=True))
    streams = (StreamPermissions(3, manage_topics=True), StreamPermissions(7, topics=topics))
    wanted = Permissions(GlobalPermissions(read_servers=True), streams)
    assert found == (wanted, ("a/z", "c"))


@pytest.mark.parametrize(
    ("asked", "done", "is_due"),
    [
        ("", "", False),
        ("2026-05-01T12:00:00Z", "", True),
        ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z", False),
        ("2036-05-01T12:00:00Z", "", False),
    ],
)
def test_a_password_is_rotated_once_when_its_time_has_come(
    asked: str, done: str, is_due: bool
) -> None:
    assert is_rotation_due(asked, done, now_s=1_800_000_000) == is_due


def test_a_token_is_renewed_when_a_third_of_its_life_is_left() -> None:
    expires_at = "2027-01-15T08:00:00Z"  # 1_800_000_000
    due = [is_token_due(expires_at, 300, now_s=1_800_000_000 - left) for left in (101, 100, 99, -5)]

    assert due == [False, False, True, True]
    assert not is_token_due("", None, now_s=0)
    assert is_token_due("", 300, now_s=0)
    assert is_token_due(expires_at, None, now_s=0)


async def given_user(world: OperatorWorld, **spec: object) -> Ref:
    world.give_broker()
    world.give_stream()
    world.give_topic()
    user = world.give_user(**spec)
    await world.resync()
    return user


def test_a_user_gets_a_password_in_a_secret_that_programs_can_bind() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world, permissions=READER)

        password = world.secret("fraud-iggy", "password")
        assert len(password) == 32
        assert world.broker.people["fraud"].password == password
        secret = world.cluster.objects[SECRET]
        assert secret["type"] == "servicebinding.io/iggy"
        assert world.secret("fraud-iggy", "uri") == f"iggy://fraud:{password}@{ADDRESS}"
        assert world.secret("fraud-iggy", "host") == ADDRESS.partition(":")[0]
        for kind in ("Ready", "Synced", "CredentialsReady"):
            assert world.says(user, kind) == ("True", "Synced")
        assert world.status(user)["secretName"] == "fraud-iggy"
        assert password not in str(world.cluster.objects[user])
        assert world.finalizers(user) == [FINALIZER]
        grants = world.broker.people["fraud"].permissions
        assert grants is not None
        topic_id = world.broker.topics["shop", "orders"].id
        assert grants.streams[0].topics == (
            TopicPermissions(topic_id, read_topic=True, poll_messages=True),
        )

    run_in(scenario)


def test_the_password_stays_through_resyncs_restarts_and_a_lost_status() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world)
        world.cluster.annotate(user, "rotate-password-at", "2026-05-01T12:00:00Z")
        await world.go(70)
        password = world.secret("fraud-iggy", "password")
        await world.go(130)  # counts of other objects
        version = world.cluster.objects[SECRET]["metadata"]["resourceVersion"]

        await world.go(20 * 60)
        world.start()
        await world.go(120)
        world.cluster.wipe_status(user)
        await world.go(120)

        assert world.secret("fraud-iggy", "password") == password
        assert world.cluster.objects[SECRET]["metadata"]["resourceVersion"] == version
        assert world.broker.people["fraud"].password == password
        assert world.says(user) == ("True", "Synced")

    run_in(scenario)


def test_a_secret_of_somebody_else_is_never_touched() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_secret("fraud-iggy", anything="theirs")
        before = world.cluster.objects[SECRET]
        user = await given_user(world)
        await world.go(300)

        assert world.says(user) == ("False", "NameConflict")
        assert world.cluster.objects[SECRET] == before
        assert world.broker.people == {}

        world.cluster.remove(user)
        await world.go(65)
        assert user not in world.cluster.objects
        assert world.cluster.objects[SECRET] == before

    run_in(scenario)


def test_an_imported_password_is_used_and_followed() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world, passwordSecretRef={"name": "mine"})
        assert world.says(user) == ("False", "SecretNotFound")

        world.give_secret("mine", password="first-of-mine")
        await world.go(65)
        assert world.broker.people["fraud"].password == "first-of-mine"
        version = world.status(user)["passwordSecretVersion"]

        world.give_secret("mine", password="second-of-mine")
        await world.go(40)
        assert world.broker.people["fraud"].password == "second-of-mine"
        assert world.secret("fraud-iggy", "password") == "second-of-mine"
        assert world.status(user)["passwordSecretVersion"] != version

        world.give_secret("mine", password="x")
        await world.go(65)
        assert world.says(user) == ("False", "SecretInvalid")
        assert world.broker.people["fraud"].password == "second-of-mine"

    run_in(scenario)


def test_a_password_is_rotated_when_an_annotation_says_so() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world)
        before = world.secret("fraud-iggy", "password")

        world.cluster.annotate(user, "rotate-password-at", "2026-05-01T12:00:00Z")
        await world.settle()

        after = world.secret("fraud-iggy", "password")
        assert after != before
        assert world.broker.people["fraud"].password == after
        assert "lastRotationTime" in world.status(user)
        assert world.cluster.names("Secret") == ["fraud-iggy", "root"]

        world.cluster.annotate(user, "rotate-password-at", "tomorrow")
        await world.settle()
        assert world.says(user) == ("False", "Unsupported")
        assert world.secret("fraud-iggy", "password") == after

    run_in(scenario)


def test_a_user_whose_password_nobody_knows_is_not_taken_over() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.broker.answer(requests.CreateUser("fraud", "theirs-alone"))
        world.give_secret("mine", password="theirs-alone")
        user = world.give_user()
        await world.go(65)
        assert world.says(user) == ("False", "AlreadyExists")

        world.cluster.change_spec(user, passwordSecretRef={"name": "mine"})
        await world.go(65)
        assert world.says(user) == ("True", "Synced")
        assert world.broker.people["fraud"].password == "theirs-alone"

    run_in(scenario)


def test_grants_wait_for_topics_and_follow_one_that_was_made_anew() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        user = world.give_user(permissions=READER)
        await world.resync()
        assert world.says(user) == ("True", "Synced")
        assert world.says(user, "Synced") == ("False", "UnresolvedGrants")
        assert world.status(user)["unresolved"] == ["shop/orders"]

        world.give_topic()
        await world.settle()
        assert world.says(user, "Synced") == ("True", "Synced")
        assert "unresolved" not in world.status(user)
        assert granted(world) == [world.broker.topics["shop", "orders"].id]

        world.broker.drop_topic("shop", "orders")
        await world.go(130)
        assert granted(world) == [world.broker.topics["shop", "orders"].id]

        world.broker.people["fraud"].permissions = None
        await world.go(65)
        assert len(granted(world)) == 1

    run_in(scenario)


def granted(world: OperatorWorld) -> list[int]:
    permissions = world.broker.people["fraud"].permissions
    assert permissions is not None
    return [topic.topic_id for stream in permissions.streams for topic in stream.topics]


def test_a_user_is_locked_out_and_let_in_again() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world)
        states = []
        for is_active in (False, True):
            world.cluster.change_spec(user, active=is_active)
            await world.settle()
            states.append(world.broker.people["fraud"].user.status)

        assert states == [2, 1]

    run_in(scenario)


def test_tokens_have_secrets_are_renewed_in_time_and_go_when_not_wanted() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(
            world, accessTokens=[{"name": "dashboard", "expiry": "1h"}, {"name": "robot"}]
        )
        names = [row["secretName"] for row in world.status(user)["accessTokens"]]
        assert names == ["fraud-iggy.dashboard", "fraud-iggy.robot"]
        first = world.secret(names[0], "token")
        assert world.broker.people["fraud"].tokens["dashboard"] == first
        robot = world.secret(names[1], "token")

        await world.go(30 * 60)
        assert world.secret(names[0], "token") == first
        await world.go(15 * 60)
        second = world.secret(names[0], "token")
        assert second != first
        assert world.broker.people["fraud"].tokens["dashboard"] == second
        assert world.secret(names[1], "token") == robot

        world.cluster.change_spec(user, accessTokens=[{"name": "robot", "expiry": "never"}])
        await world.settle()
        assert list(world.broker.people["fraud"].tokens) == ["robot"]
        assert names[0] not in world.cluster.names("Secret")
        assert [row["name"] for row in world.status(user)["accessTokens"]] == ["robot"]

    run_in(scenario)


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_a_user_goes_with_its_object_unless_retained_and_its_secrets_always(policy: str) -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world, deletionPolicy=policy, accessTokens=[{"name": "robot"}])

        world.cluster.remove(user)
        await world.settle()

        assert user not in world.cluster.objects
        assert world.cluster.names("Secret") == ["root"]
        assert ("fraud" in world.broker.people) == (policy == "Retain")

    run_in(scenario)


def test_a_broker_that_lost_its_users_gets_them_with_the_same_passwords() -> None:
    async def scenario(world: OperatorWorld) -> None:
        user = await given_user(world, permissions=READER, accessTokens=[{"name": "robot"}])
        password = world.secret("fraud-iggy", "password")
        world.broker.lose_everything()

        await world.go(300)

        assert world.broker.people["fraud"].password == password
        token = world.secret("fraud-iggy.robot", "token")
        assert world.broker.people["fraud"].tokens == {"robot": token}
        assert world.says(user, "Synced") == ("True", "Synced")

    run_in(scenario)


async def life(world: OperatorWorld) -> None:
    world.give_broker()
    user = world.give_user(accessTokens=[{"name": "robot", "expiry": "1h"}])
    await live_on(world, user)
    first = world.secret("fraud-iggy", "password")
    world.cluster.annotate(user, "rotate-password-at", "2026-05-01T12:00:00Z")
    await live_on(world, user)
    assert world.secret("fraud-iggy", "password") != first
    world.clock.seconds += 45 * 60  # the token is due
    await live_on(world, user)
    world.give_secret("mine", password="given-by-hand")
    world.cluster.change_spec(user, passwordSecretRef={"name": "mine"})
    await live_on(world, user)
    assert world.secret("fraud-iggy", "password") == "given-by-hand"
    world.cluster.remove(user)
    await live(world)
    assert world.broker.people == {}
    assert world.cluster.names("Secret") == ["mine", "root"]


async def live_on(world: OperatorWorld, user: Ref) -> None:
    """And Secret and broker agree then."""
    await live(world)
    assert world.says(user) == ("True", "Synced")
    person = world.broker.people["fraud"]
    assert person.password == world.secret("fraud-iggy", "password")
    assert person.tokens == {"robot": world.secret("fraud-iggy.robot", "token")}
    assert "fraud-iggy-next" not in world.cluster.names("Secret")


LIVES = Lives(run_in, life)


def test_a_kill_after_every_single_write_of_a_user_heals() -> None:
    LIVES.check_kills(more_than=15)


@pytest.mark.parametrize("fault", [ServerFailedError("500"), LinkError("the connection broke")])
def test_a_lost_answer_to_any_call_for_a_user_heals(fault: Exception) -> None:
    def may_hit(call: Made) -> bool:
        return concerns(fault, call) and call.verb != "list"  # who lists tries again by himself

    LIVES.check_faults(fault, may_hit, lost=True, every=EVERY, more_than=20)
