"""Connections: the caller's, one, all. Of all shards together."""

from __future__ import annotations

from typing import Final

from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.net.clients import LoggedIn
from iggy_broker.net.context import Answer, Context, Row
from iggy_wire import replies, requests
from iggy_wire.codes import Command


async def get_me(context: Context, request: requests.GetMe) -> Answer:
    """The calling connection."""
    del request
    me = LoggedIn.of(context.session, context.user_id)
    return Answer(_details(context, me))


async def get_client(context: Context, request: requests.GetClient) -> Answer:
    """One logged-in connection; an empty body if there is none with this number."""
    for client in await context.services.clients.all():
        if client.client_number == request.client_id:
            return Answer(_details(context, client))
    return Answer()


async def get_clients(context: Context, request: requests.GetClients) -> Answer:
    """All logged-in connections, ascending by number."""
    del request
    found = await context.services.clients.all()
    rows = tuple(_info(client, _groups(context, client)) for client in found)
    return Answer(replies.Clients(rows).encode())


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_ME: Row(get_me, requests.GetMe),
    Command.GET_CLIENT: Row(get_client, requests.GetClient),
    Command.GET_CLIENTS: Row(get_clients, requests.GetClients),
}


def _groups(context: Context, client: LoggedIn) -> tuple[GroupPlace, ...]:
    return context.services.replica.state.memberships.of_session(client.session)


def _info(client: LoggedIn, groups: tuple[GroupPlace, ...]) -> replies.ClientInfo:
    return replies.ClientInfo(
        client_id=client.client_number,
        user_id=client.user_id,
        transport=client.transport,
        address=client.address,
        groups_count=len(groups),
    )


def _details(context: Context, client: LoggedIn) -> bytes:
    groups = _groups(context, client)
    members = tuple(replies.Membership(*place) for place in groups)
    return replies.ClientDetails(_info(client, groups), members).encode()
