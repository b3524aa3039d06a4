"""`iggykube produce`: lines or files into a topic."""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from iggy_client.client import Message
from iggy_client.keep_alive import KeptAlive
from iggy_wire.errors import WireError
from iggy_wire.primitives import Partitioning
from iggykube import headers as user_headers
from iggykube.completion import complete_stream, complete_topic
from iggykube.connection import Target, TargetOptions, target_options
from iggykube.errors import CommandError, Interrupted
from iggykube.option_types import HEADER, KEY, NAME, PARTITION, Parsed, duration, size
from iggykube.options import output_option
from iggykube.producer import KeyField, Limits, Producer, Route
from iggykube.records import RECORD_BYTES_MAX, STDIN, InputProblem, Source
from iggykube.signals import Requests, stop_requests

BATCH_MESSAGES_MAX: Final = 1_000_000
BATCH_BYTES_MAX: Final = 32 << 20
"""Servers take requests of up to 64 MiB."""


class Work(msgspec.Struct, frozen=True):
    """What to send, and how. At most one of the three that choose a partition is set."""

    stream: str
    topic: str
    paths: tuple[Path, ...]
    whole_files: bool
    null: bool
    key: bytes | None
    key_field: str | None
    partition: int | None
    headers: bytes
    limits: Limits

    def route(self, kept: KeptAlive) -> Route:
        """Where each message goes."""
        if self.key_field is not None:
            return KeyField(kept, self.stream, self.topic, self.key_field)
        fixed = Partitioning.balanced()
        if self.key is not None:
            fixed = Partitioning.key(self.key)
        elif self.partition is not None:
            fixed = Partitioning.partition(self.partition)
        return lambda payload: fixed


@click.command()
@click.argument("stream", type=NAME, shell_complete=complete_stream)
@click.argument("topic", type=NAME, shell_complete=complete_topic)
@click.argument(
    "paths",
    nargs=-1,
    metavar="[FILE]...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--null", is_flag=True, help="Messages end with a NUL byte, not with a line.")
@click.option("--file", "whole_files", is_flag=True, help="Each FILE is one message.")
@click.option("--key", type=KEY, help="Messages go to the partition of this key.")
@click.option(
    "--key-field",
    type=NAME,
    metavar="FIELD",
    help="Messages are JSON objects; each goes to the partition of this field's value.",
)
@click.option(
    "--partition", type=PARTITION, metavar="N", help="Messages go to this partition, from 0 on."
)
@click.option(
    "--header", "headers", multiple=True, type=HEADER, help="Header of every message. Repeatable."
)
@click.option(
    "--batch-messages",
    type=click.IntRange(1, BATCH_MESSAGES_MAX),
    default=1000,
    show_default=True,
    metavar="N",
    help="Send when so many are collected.",
)
@click.option(
    "--batch-bytes",
    type=Parsed("size", size(BATCH_BYTES_MAX)),
    default=1 << 20,
    show_default="1MiB",
    help="Send when so much is collected.",
)
@click.option(
    "--linger",
    "linger_s",
    type=Parsed("duration", duration()),
    default=0.01,
    show_default="10ms",
    help="Send what has waited so long.",
)
@output_option
@target_options
def produce(given: TargetOptions, output: str, **options: Any) -> None:
    """Send each line of FILE, or of standard input, as a message to TOPIC in STREAM.

    Without --key, --key-field and --partition the broker takes the partitions in turn. Says at the
    end how many messages were acknowledged. Ends with 0 if all were; with 1 if not, and says how
    many; with 2 if the command is written wrongly. Ctrl-C sends what was read, then ends.
    """
    work = _work(**options)
    _check_files(work)
    send(given.target(), work, output)


def _work(**options: Any) -> Work:
    """Raises click.UsageError for options that do not go together."""
    names = ("key", "key_field", "partition")
    chosen = [f"--{name.replace('_', '-')}" for name in names if options[name] is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} choose a partition: give one of them")
    pairs = options.pop("headers")
    names_of_headers = [name for name, _ in pairs]
    for name in names_of_headers:
        if names_of_headers.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice", param_hint="'--header'")
    try:
        encoded = user_headers.encode(dict(pairs))
    except WireError as error:
        raise click.BadParameter(error.detail, param_hint="'--header'") from error
    limits = Limits(
        options.pop("batch_messages"), options.pop("batch_bytes"), options.pop("linger_s")
    )
    return Work(headers=encoded, limits=limits, **options)


def _check_files(work: Work) -> None:
    """Before anything is sent: what can be seen without reading."""
    if not work.whole_files:
        return
    if work.null:
        raise click.UsageError("--null cuts input into messages, and with --file nothing is cut")
    if not work.paths:
        raise click.UsageError("--file needs a FILE: name those that are to be sent")
    for path in work.paths:
        if path == STDIN:
            raise click.UsageError("--file needs a FILE: '-' is standard input")
        found = path.stat()
        if not 1 <= found.st_size <= RECORD_BYTES_MAX and path.is_file():
            expected = f"a message has 1 to {RECORD_BYTES_MAX} bytes"
            message = f"'{path}' has {found.st_size} bytes: {expected}"
            raise click.BadParameter(message, param_hint="'FILE'")


def send(target: Target, work: Work, output: str) -> None:
    """Send, and show the report. Raises CommandError with what became of the messages."""
    with stop_requests(breaks=True) as requests, KeptAlive(target.connect()) as kept:
        producer = Producer(kept, work.stream, work.topic, work.limits)
        report = producer.report
        problem: CommandError | None = None
        try:
            _pump(producer, work, work.route(kept), requests)
        except CommandError as error:
            # A file's name may be no UTF-8, and JSON is.
            report.error = str(error).encode(errors="backslashreplace").decode()
            problem = type(error)(f"{error}; {report.told()}")
        except KeyboardInterrupt:
            report.error = "interrupted before all was answered"
            problem = Interrupted(f"{report.error}; {report.told()}")
        report.is_interrupted = requests.stop()
    if output == "json":
        click.echo(msgspec.json.encode(report))
    elif problem is None:
        click.echo(report.told())
    if problem is not None:
        raise problem


def _pump(producer: Producer, work: Work, route: Route, requests: Requests) -> None:
    """Everything that comes, until it ends. What came before a bad record is sent."""
    source = Source(work.paths, requests)
    try:
        if work.whole_files:
            for payload in source.files():
                producer.add(Message(payload, headers=work.headers), route(payload))
        else:
            _pump_records(producer, work, route, source)
    except InputProblem:
        producer.flush()
        raise
    producer.flush()


def _pump_records(producer: Producer, work: Work, route: Route, source: Source) -> None:
    number = 0
    for records in source.records(b"\0" if work.null else b"\n", producer.due_in_s):
        for payload in records:
            number += 1
            if not payload:
                producer.report.left_out += 1
                continue
            try:
                partitioning = route(payload)
            except InputProblem as error:
                raise InputProblem(f"message {number} of the input: {error}") from error
            producer.add(Message(payload, headers=work.headers), partitioning)
        producer.flush_if_due()
