"""Consumer groups: create, read, delete. Nobody can join one yet, so they have no members."""

from __future__ import annotations

from typing import Final

from iggy_broker.metadata import changes
from iggy_broker.metadata.model import Group
from iggy_broker.net.context import Answer, Context, Row
from iggy_wire import replies, requests
from iggy_wire.codes import Command


async def create_group(context: Context, request: requests.CreateConsumerGroup) -> Answer:
    """Make a group; the reply describes it."""
    change = changes.CreateGroup(request.stream.value, request.topic.value, request.name)
    result = await context.services.replica.submit(change, user_id=_user_id(context))
    assert result.group is not None, "a created group comes with its result"
    body = replies.GroupDetails(_group(result.group, result.partitions_count)).encode()
    return Answer(body, op=result.op, timestamp_us=result.at_us)


async def delete_group(context: Context, request: requests.DeleteConsumerGroup) -> Answer:
    """Delete a group."""
    change = changes.DeleteGroup(request.stream.value, request.topic.value, request.group.value)
    result = await context.services.replica.submit(change, user_id=_user_id(context))
    return Answer(op=result.op, timestamp_us=result.at_us)


async def get_group(context: Context, request: requests.GetConsumerGroup) -> Answer:
    """One group; an empty body if there is none in this topic."""
    state = context.services.replica.state
    _, topic = state.topic(request.stream.value, request.topic.value)
    group = topic.find_group(request.group.value)
    if group is None:
        return Answer()
    return Answer(replies.GroupDetails(_group(group, len(topic.partitions))).encode())


async def get_groups(context: Context, request: requests.GetConsumerGroups) -> Answer:
    """All groups of a topic, ascending by id."""
    state = context.services.replica.state
    _, topic = state.topic(request.stream.value, request.topic.value)
    count = len(topic.partitions)
    groups = tuple(_group(group, count) for group in topic.groups_by_id())
    return Answer(replies.Groups(groups).encode())


COMMANDS: Final[dict[int, Row]] = {
    Command.CREATE_CONSUMER_GROUP: Row(create_group, requests.CreateConsumerGroup),
    Command.DELETE_CONSUMER_GROUP: Row(delete_group, requests.DeleteConsumerGroup),
    Command.GET_CONSUMER_GROUP: Row(get_group, requests.GetConsumerGroup),
    Command.GET_CONSUMER_GROUPS: Row(get_groups, requests.GetConsumerGroups),
}


def _group(group: Group, partitions_count: int) -> replies.Group:
    return replies.Group(
        id=group.id, partitions_count=partitions_count, members_count=0, name=group.name
    )


def _user_id(context: Context) -> int:
    return context.user_id
