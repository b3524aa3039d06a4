"""Personal access tokens, always of the calling user; and the removal of expired ones."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.logs import event
from iggy_broker.metadata import credentials, user_changes
from iggy_broker.metadata.model import State
from iggy_broker.net.context import Answer, Context, Row, Services
from iggy_wire import replies, requests
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_NEVER: Final = (0, (1 << 64) - 1)  # Iggy protocol 0.11: both mean that a token does not expire


async def get_tokens(context: Context, request: requests.GetPersonalAccessTokens) -> Answer:
    """The caller's tokens, by name, without their secrets."""
    del request
    user = context.services.replica.state.users.get(context.user_id)
    if user is None:
        raise Deny(ErrorCode.UNAUTHORIZED, "the user was deleted meanwhile")
    tokens = tuple(
        replies.AccessToken(token.name, token.expires_at_us)
        for token in sorted(user.tokens.values(), key=lambda token: token.name)
    )
    return Answer(replies.AccessTokens(tokens).encode())


async def create_token(context: Context, request: requests.CreatePersonalAccessToken) -> Answer:
    """Make a token. Its text is in this reply and nowhere else."""
    token = credentials.new_token()
    change = user_changes.CreateToken(
        request.name,
        credentials.hash_token(token),
        lifetime_us=0 if request.expiry_us in _NEVER else request.expiry_us,
        tokens_max=context.services.config.personal_access_token.max_tokens_per_user,
    )
    result = await context.services.replica.submit(change, caller=context.caller)
    body = replies.NewToken(token).encode()
    return Answer(body, op=result.op, timestamp_us=result.at_us)


async def delete_token(context: Context, request: requests.DeletePersonalAccessToken) -> Answer:
    """Delete a token; whoever is logged in with it stays so."""
    change = user_changes.DeleteToken(request.name)
    result = await context.services.replica.submit(change, caller=context.caller)
    return Answer(op=result.op, timestamp_us=result.at_us)


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_PERSONAL_ACCESS_TOKENS: Row(get_tokens, requests.GetPersonalAccessTokens),
    Command.CREATE_PERSONAL_ACCESS_TOKEN: Row(create_token, requests.CreatePersonalAccessToken),
    Command.DELETE_PERSONAL_ACCESS_TOKEN: Row(delete_token, requests.DeletePersonalAccessToken),
}


async def drop_expired_tokens(services: Services, *, interval_us: int) -> None:
    """Look for expired tokens for as long as the broker lives. One shard does this."""
    while True:
        await asyncio.sleep(interval_us / 1_000_000)
        expired = expired_count(services.replica.state, services.clock.now_us())
        if expired:
            try:
                await services.replica.submit(user_changes.DropExpiredTokens())
            except Reject:
                continue  # a full disk: they log nobody in anyway, and may go the next time
            logger.info("= %d expired tokens removed", expired, extra=event("tokens_removed"))


def expired_count(state: State, now_us: int) -> int:
    """How many tokens have expired and are still there."""
    return sum(
        token.is_over(now_us) for user in state.users.values() for token in user.tokens.values()
    )
