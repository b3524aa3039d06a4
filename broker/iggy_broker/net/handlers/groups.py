"""Consumer groups and their members. Join and leave act on the calling session."""

from __future__ import annotations

from typing import Final

from iggy_broker.metadata import changes
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.net.context import Answer, Context, Row
from iggy_wire import replies, requests
from iggy_wire.codes import Command


async def create_group(context: Context, request: requests.CreateConsumerGroup) -> Answer:
    """Make a group; the reply describes it."""
    change = changes.CreateGroup(request.stream.value, request.topic.value, request.name)
    result = await context.services.replica.submit(change, caller=context.caller)
    assert result.group is not None, "a created group comes with its result"
    group = replies.Group(result.group.id, result.partitions_count, 0, result.group.name)
    body = replies.GroupDetails(group).encode()
    return Answer(body, op=result.op, timestamp_us=result.at_us)


async def delete_group(context: Context, request: requests.DeleteConsumerGroup) -> Answer:
    """Delete a group."""
    change = changes.DeleteGroup(request.stream.value, request.topic.value, request.group.value)
    result = await context.services.replica.submit(change, caller=context.caller)
    return Answer(op=result.op, timestamp_us=result.at_us)


async def get_group(context: Context, request: requests.GetConsumerGroup) -> Answer:
    """One group with its members; an empty body if there is none in this topic."""
    state = context.services.replica.state
    stream, topic = state.topic(request.stream.value, request.topic.value)
    group = topic.find_group(request.group.value)
    if group is None:
        return Answer()
    assignment = state.memberships.of_group(GroupPlace(stream.id, topic.id, group.id))
    members = tuple(replies.Member(one.slot, one.partitions) for one in assignment.members)
    described = replies.Group(group.id, len(topic.partitions), len(members), group.name)
    return Answer(replies.GroupDetails(described, members).encode())


async def get_groups(context: Context, request: requests.GetConsumerGroups) -> Answer:
    """All groups of a topic, ascending by id."""
    state = context.services.replica.state
    stream, topic = state.topic(request.stream.value, request.topic.value)
    found = []
    for group in topic.groups_by_id():
        assignment = state.memberships.of_group(GroupPlace(stream.id, topic.id, group.id))
        members_count = len(assignment.members)
        found.append(replies.Group(group.id, len(topic.partitions), members_count, group.name))
    return Answer(replies.Groups(tuple(found)).encode())


async def join_group(context: Context, request: requests.JoinConsumerGroup) -> Answer:
    """The calling session becomes a member; joining twice changes nothing."""
    caller = context.caller  # refuses a session that has ended: it would never leave
    target = (request.stream.value, request.topic.value, request.group.value)
    change = changes.JoinGroup(*target, session=context.session.number)
    result = await context.services.members.join(change, caller)
    return Answer(op=result.op, timestamp_us=result.at_us)


async def leave_group(context: Context, request: requests.LeaveConsumerGroup) -> Answer:
    """The calling session is no member any more. CONSUMER_GROUP_MEMBER_NOT_FOUND if it was none."""
    target = (request.stream.value, request.topic.value, request.group.value)
    change = changes.LeaveGroup(*target, session=context.session.number)
    result = await context.services.replica.submit(change, caller=context.caller)
    return Answer(op=result.op, timestamp_us=result.at_us)


async def sync_group(context: Context, request: requests.SyncConsumerGroup) -> Answer:
    """What the calling session may poll now; an empty body if it is no member, whatever misses."""
    state = context.services.replica.state
    found = state.find_topic(request.stream.value, request.topic.value)
    group = None if found is None else found[1].find_group(request.group.value)
    if found is None or group is None:
        return Answer()
    assignment = state.memberships.of_group(GroupPlace(found[0].id, found[1].id, group.id))
    member = assignment.member(context.session.number)
    if member is None:
        return Answer()
    partitions = assignment.readable(member)
    return Answer(replies.GroupAssignment(assignment.generation, partitions).encode())


COMMANDS: Final[dict[int, Row]] = {
    Command.CREATE_CONSUMER_GROUP: Row(create_group, requests.CreateConsumerGroup),
    Command.DELETE_CONSUMER_GROUP: Row(delete_group, requests.DeleteConsumerGroup),
    Command.GET_CONSUMER_GROUP: Row(get_group, requests.GetConsumerGroup),
    Command.GET_CONSUMER_GROUPS: Row(get_groups, requests.GetConsumerGroups),
    Command.JOIN_CONSUMER_GROUP: Row(join_group, requests.JoinConsumerGroup),
    Command.LEAVE_CONSUMER_GROUP: Row(leave_group, requests.LeaveConsumerGroup),
    Command.SYNC_CONSUMER_GROUP: Row(sync_group, requests.SyncConsumerGroup),
}
