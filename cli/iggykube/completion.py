"""Shell completion: the script that a shell reads, and names that it completes.

Names come from the broker of the local instance, if one runs; nothing is ever started or waited for
long, and whatever goes wrong there means that nothing is completed.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import get_completion_class

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggykube.errors import CommandError

if TYPE_CHECKING:
    from iggykube.local.snapshot import JobRow, Snapshot

COMPLETE_VARIABLE: Final = "_IGGYKUBE_COMPLETE"
ASK_S_MAX: Final = 1.0
SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for SHELL.

    \b
    bash   eval "$(iggykube completion bash)"         in ~/.bashrc
    zsh    eval "$(iggykube completion zsh)"          in ~/.zshrc
    fish   iggykube completion fish | source          in ~/.config/fish/config.fish

    Also the names of streams, topics, groups, sinks and sources are completed while a local
    instance runs.
    """
    made = get_completion_class(shell)
    assert made is not None, "click knows the three"
    root = click.get_current_context().find_root().command
    click.echo(made(root, {}, "iggykube", COMPLETE_VARIABLE).source())


def complete_stream(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of streams."""
    return _names(context, text, lambda client: (item.name for item in client.get_streams()))


def complete_topic(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of the stream's topics."""
    stream = _argument(context, "stream", 0)
    if stream is None:
        return []
    return _names(context, text, lambda client: (item.name for item in client.get_topics(stream)))


def complete_group(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of the topic's groups."""
    stream, topic = _argument(context, "stream", 0), _argument(context, "topic", 1)
    if stream is None or topic is None:
        return []
    return _names(
        context, text, lambda client: (item.name for item in client.get_groups(stream, topic))
    )


def complete_sink(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of sinks of the local instance."""
    return _jobs(context, text, lambda snapshot: snapshot.sinks)


def complete_source(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Names of sources of the local instance."""
    return _jobs(context, text, lambda snapshot: snapshot.sources)


def _jobs(
    context: click.Context, text: str, rows: Callable[["Snapshot"], Iterable["JobRow"]]
) -> list[str]:
    from iggykube.running import local_instance  # only when names are asked for: it takes a while

    try:
        snapshot, _ = local_instance(_data(context))
    except (CommandError, OSError):
        return []
    return [row.name for row in rows(snapshot) if row.name.startswith(text)]


def _names(context: click.Context, text: str, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """What the local instance's broker knows, as far as it begins with `text`."""
    # Only when names are asked for: it takes a while.
    from iggykube.running import local_instance, tls_of

    try:
        snapshot, login = local_instance(_data(context))
        tls = tls_of(snapshot)
        client = Client.connect(snapshot.address, *login, timeout_s=ASK_S_MAX, tls=tls)
        with client:
            return sorted(name for name in ask(client) if name.startswith(text))
    except (CommandError, ClientError, LinkError, OSError):
        return []


def _argument(context: click.Context, name: str, index: int) -> str | None:
    """An argument that stands already. Behind an option without its value click parses none."""
    value = context.params.get(name)
    if value is None and index < len(context.args):
        value = context.args[index]
    return value if isinstance(value, str) else None


def _data(context: click.Context) -> Path:
    data = context.params.get("data")
    return data if isinstance(data, Path) else Path(".iggykube")
