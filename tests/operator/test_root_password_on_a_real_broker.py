"""Root's password changes in a real broker, under the operator's own connection."""

import asyncio

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client import AsyncClient, Client, ClientError, Tls
from managed_world import BROKER, ManagedWorld


def test_root_gets_another_password_and_the_operator_goes_on(broker: BrokerProcess) -> None:
    async def connect(
        address: str, username: str, password: str, *, tls: Tls | None
    ) -> AsyncClient:
        assert address == "main.shop.svc:8090"
        return await AsyncClient.connect(broker.address, username, password)

    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("ours", username=USERNAME, password=PASSWORD)
        world.give_managed(rootCredentialsSecretName="ours")
        stream = world.give_stream()
        await world.resync()
        await world.go(70)
        assert world.says(stream) == ("True", "Synced")

        world.give_secret("ours", username=USERNAME, password="another-one")
        await world.go(130)
        topic = world.give_topic()
        await world.go(70)

        assert world.says(BROKER, "CredentialsReady") == ("True", "Synced")
        assert world.says(topic) == ("True", "Synced")
        assert world.secret("main-root", "password") == "another-one"
        await world.pool.keep_only(())

    async def main() -> None:
        world = ManagedWorld(connect)
        await scenario(world)

    asyncio.run(main())

    with Client.connect(broker.address, USERNAME, "another-one") as client:
        assert client.get_topic("shop", "orders") is not None
    with pytest.raises(ClientError, match="INVALID_CREDENTIALS"):
        Client.connect(broker.address, USERNAME, PASSWORD)
