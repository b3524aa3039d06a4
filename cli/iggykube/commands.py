"""The program's commands. A module is imported when its command is used: help comes at once."""

from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

from iggy_broker import __version__

# By command: where it is, under its own name, and what the list of commands says of it.
COMMANDS: Final = {
    "client": ("iggykube.admin.system", "See who is connected to a broker."),
    "cluster": ("iggykube.admin.system", "Show the nodes that a broker names."),
    "group": ("iggykube.admin.groups", "List, show, make and remove consumer groups."),
    "message": ("iggykube.admin.messages", "Send and read messages: produce and consume."),
    "offset": ("iggykube.admin.offsets", "Show, set and delete stored offsets."),
    "ping": ("iggykube.admin.system", "Ask whether a broker answers."),
    "stats": ("iggykube.admin.system", "Show what a broker holds and uses."),
    "stream": ("iggykube.admin.streams", "List, show, make and remove streams."),
    "token": ("iggykube.admin.tokens", "List, make and end your access tokens."),
    "topic": ("iggykube.admin.topics", "List, show, make, change and remove topics."),
    "user": ("iggykube.admin.users", "List, show, make, change and remove users."),
    "check": ("iggykube.check", "Check files, start nothing."),
    "completion": ("iggykube.completion", "Print the script that makes a shell complete commands."),
    "consume": ("iggykube.consume", "Show messages."),
    "down": ("iggykube.up", "Stop the instance that runs in a data directory."),
    "produce": ("iggykube.produce", "Send lines or files as messages."),
    "sink": (
        "iggykube.sink_commands",
        "Look at the sinks of a running instance.",
    ),
    "source": (
        "iggykube.source_commands",
        "Look at the sources of a running instance.",
    ),
    "status": ("iggykube.status", "Show the instance that runs in a data directory."),
    "up": ("iggykube.up", "Run resources on this machine."),
}


class LazyGroup(click.Group):
    """A group whose commands stand in `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of these arguments; the nearest one is named if there is none."""
        name = args[0]
        if name in COMMANDS or ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(sorted(COMMANDS))}"
        raise click.UsageError(f"no such command '{name}', {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iggykube")
def cli() -> None:
    """Event streams from the same YAML on a laptop and on Kubernetes.

    \b
    iggykube up -f topic.yaml      run what the file asks for, on this machine
    iggykube status                show it, from another terminal
    iggykube produce shop orders   send lines as messages
    iggykube consume shop orders   show messages
    iggykube down                  stop it
    iggykube check -f topic.yaml   only check the file
    """
