"""Users: reads. There is one, root; making others is not built yet."""

from __future__ import annotations

from typing import Final

from iggy_broker.metadata.model import User
from iggy_broker.net.context import Answer, Context, Row
from iggy_wire import replies, requests
from iggy_wire.codes import Command

ACTIVE: Final = 1
INACTIVE: Final = 2


async def get_users(context: Context, request: requests.GetUsers) -> Answer:
    """All users, ascending by id."""
    del request
    users = context.services.replica.state.users
    return Answer(replies.Users(tuple(_user(users[number]) for number in sorted(users))).encode())


async def get_user(context: Context, request: requests.GetUser) -> Answer:
    """One user; an empty body if there is none."""
    user = context.services.replica.state.find_user(request.user.value)
    return Answer() if user is None else Answer(replies.UserDetails(_user(user)).encode())


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_USERS: Row(get_users, requests.GetUsers),
    Command.GET_USER: Row(get_user, requests.GetUser),
}


def _user(user: User) -> replies.User:
    return replies.User(
        id=user.id,
        created_at_us=user.created_at_us,
        status=ACTIVE if user.active else INACTIVE,
        name=user.name,
    )
