"""`iggykube consume`: messages of a topic to standard output."""

import time
from contextlib import suppress
from typing import Final

import click
import msgspec

from iggy_client.errors import ClientError, LinkError
from iggy_client.keep_alive import KeptAlive
from iggy_wire.errors import WireError
from iggykube import sheet
from iggykube.completion import complete_group, complete_stream, complete_topic
from iggykube.connection import BrokerProblem, TargetOptions, target_options
from iggykube.option_types import COUNT, COUNT_MAX, NAME, PARTITION, POSITION, Position
from iggykube.outlet import Outlet
from iggykube.reader import GroupReader, Reader
from iggykube.signals import Requests, stop_requests

IDLE_S: Final = 0.1
IDLE_SHARE: Final = 4.0
"""Looking for new messages takes at most a fifth of the time, however many partitions there are."""
REFRESH_S: Final = 1.0


class Wish(msgspec.Struct, frozen=True):
    """What to read. `partitions` empty: all of them."""

    stream: str
    topic: str
    partitions: tuple[int, ...]
    start: Position
    group: str | None
    count: int
    follow: bool
    form: sheet.Format


@click.command()
@click.argument("stream", type=NAME, shell_complete=complete_stream)
@click.argument("topic", type=NAME, shell_complete=complete_topic)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=PARTITION,
    metavar="N",
    help="Only this partition, from 0 on. Repeatable. Without: all.",
)
@click.option(
    "--from",
    "start",
    type=POSITION,
    help="first (the oldest), last (the newest that is there), next, an offset, or a time such as "
    "2026-03-29T01:00:00Z. next: what comes from now on; with --group: behind what it has "
    "committed. A group that has committed in a partition goes on there in any case.  "
    "[default: first; with --group: next]",
)
@click.option(
    "--group",
    type=NAME,
    metavar="NAME",
    shell_complete=complete_group,
    help="Read as a member of this group, and commit what was printed.",
)
@click.option("--count", type=COUNT, metavar="N", help="End after so many messages.")
@click.option(
    "--follow/--no-follow",
    default=False,
    show_default=True,
    help="Wait for more at the end, until Ctrl-C.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json", "raw"]),
    default="text",
    show_default=True,
    help="text for people, json for programs (an object a line), raw for the payloads alone.",
)
@click.option("--null", is_flag=True, help="With raw: a NUL byte behind each, not a line's end.")
@target_options
def consume(  # noqa: PLR0913 -- one argument per option
    *,
    given: TargetOptions,
    stream: str,
    topic: str,
    partitions: tuple[int, ...],
    start: Position | None,
    group: str | None,
    count: int | None,
    follow: bool,
    output: str,
    null: bool,
) -> None:
    """Print the messages of TOPIC in STREAM, partition by partition in the order of their offsets.

    Without --group nothing is stored at the broker. With it, what was printed is committed and
    nothing else, so a command that is broken off is continued by the next one.
    """
    if group is not None and partitions:
        raise click.UsageError("--partition and --group: a group's partitions are assigned to it")
    if null and output != "raw":
        raise click.UsageError("--null needs --output raw")
    wish = Wish(
        stream=stream,
        topic=topic,
        partitions=tuple(dict.fromkeys(partitions)),
        start=start or Position("first" if group is None else "next"),
        group=group,
        count=count or COUNT_MAX,
        follow=follow,
        form=_form(output, b"\0" if null else b"\n"),
    )
    target = given.target()
    with stop_requests(breaks=True) as requests, KeptAlive(target.connect()) as kept:
        try:
            problem = _Consumption(wish, kept, requests).run()
        except (ClientError, LinkError, WireError) as error:
            raise BrokerProblem(str(error)) from error
    if problem is not None and not isinstance(problem, BrokenPipeError):
        raise problem  # a reader that has seen enough is a good end, a full disk is none


def _form(output: str, separator: bytes) -> sheet.Format:
    forms = {"text": sheet.text_line, "json": sheet.json_line}
    return forms[output] if output in forms else sheet.raw(separator)


class _Consumption:
    """Polls in turn, prints, and moves on by what went out."""

    def __init__(self, wish: Wish, kept: KeptAlive, requests: Requests) -> None:
        self._wish = wish
        self._kept = kept
        self._requests = requests
        self._outlet = Outlet(requests)
        self._left = wish.count

    def run(self) -> OSError | None:
        """Until the end, the count, a signal, or a reader that is gone; why if the latter."""
        wish = self._wish
        with self._kept.use() as client:
            if wish.group is None:
                reader = Reader(client, wish.stream, wish.topic, wish.start)
            else:
                place = (wish.stream, wish.topic, wish.start)
                reader = GroupReader(client, *place, group=wish.group)
            reader.begin(wish.partitions)
        try:
            self._read(reader)
        finally:
            with suppress(ClientError, LinkError), self._kept.use():
                reader.close()
        if wish.group is not None and not reader.has_read and self._goes_on():
            message = f"group {wish.group}: other members have all partitions, nothing was read"
            click.echo(message, err=True)
        return self._outlet.problem

    def _read(self, reader: Reader) -> None:
        refreshed_s = time.monotonic()
        while self._goes_on():
            began_s = time.monotonic()
            printed = sum(self._round(reader, partition) for partition in reader.partitions)
            if not self._wish.follow and reader.is_at_end():
                return
            now_s = time.monotonic()
            if now_s - refreshed_s >= REFRESH_S:
                with self._kept.use():
                    reader.refresh()
                refreshed_s = now_s
            if not printed and self._goes_on():
                self._outlet.pause(max(IDLE_S, (now_s - began_s) * IDLE_SHARE))

    def _goes_on(self) -> bool:
        return self._left > 0 and self._outlet.is_open

    def _round(self, reader: Reader, partition: int) -> int:
        """One poll of one partition; how many messages of it were printed."""
        if not self._goes_on() or partition not in reader.partitions:
            return 0
        with self._kept.use():
            found = reader.poll(partition, self._left)
        lines = [self._wish.form(partition, message) for message in found]
        printed = self._outlet.write(lines)
        if printed:
            with self._kept.use():
                reader.done(partition, found[printed - 1].offset)
            self._left -= printed
        return printed
