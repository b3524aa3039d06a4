"""The user with which the operator itself logs in is nobody's IggyUser."""

import pytest

from fake_broker import PASSWORD, USERNAME
from iggy_operator.cluster import Ref
from operator_world import OperatorWorld, run_in

BROKER = Ref("IggyBroker", "shop", "main")


@pytest.mark.parametrize("given", [None, PASSWORD], ids=["generated", "its own password"])
def test_the_operators_own_user_is_not_taken_over(given: str | None) -> None:
    async def scenario(world: OperatorWorld) -> None:
        spec = {"username": USERNAME}
        if given is not None:
            world.give_secret("given", password=given)
            spec["passwordSecretRef"] = {"name": "given"}  # type: ignore[assignment]
        world.give_broker()
        user = world.give_user(**spec)
        await world.resync()
        await world.go(130)

        assert world.says(user) == ("False", "Conflict")
        assert USERNAME in world.message(user)
        assert world.broker.password == PASSWORD
        assert "fraud-iggy" not in world.cluster.names("Secret")
        world.cluster.remove(user)
        await world.go(130)
        assert user not in world.cluster.objects
        assert world.writes().count("DeleteUser") == 0

    run_in(scenario)


def test_a_user_with_which_the_operator_logs_in_by_now_stays_in_the_broker() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        user = world.give_user()
        stream = world.give_stream()
        await world.resync()
        external = world.cluster.objects[BROKER]["spec"]["external"]
        world.cluster.change_spec(
            BROKER, external={**external, "credentialsSecretName": "fraud-iggy"}
        )
        await world.go(130)
        assert world.says(user) == ("False", "Conflict")

        world.cluster.remove(user)
        await world.go(10)

        assert user not in world.cluster.objects
        assert "fraud" in world.broker.people
        assert "Retained" in [event.reason for event in world.cluster.events]
        assert stream in world.cluster.objects

    run_in(scenario)
