"""The command line of the test cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .cluster import Cluster
from .places import Places, cache_folder
from .tools import NAMES, ensure
from .trouble import ClusterError


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 something to put right (said on standard error)."""
    options = _parser().parse_args(arguments)
    cluster = Cluster(Places(cache_folder()))
    try:
        return _run(cluster, options)
    except ClusterError as error:
        sys.stderr.write(f"cluster: {error}\n")
        return 1


def _run(cluster: Cluster, options: argparse.Namespace) -> int:
    match options.command:
        case "check":
            cluster.check()
        case "up":
            cluster.up()
        case "down":
            cluster.down()
        case "status":
            return 0 if cluster.status() else 1
        case "kubeconfig":
            sys.stdout.write(f"{cluster.where.kubeconfig}\n")
        case "load":
            cluster.load(options.archives)
        case "tools":
            ensure(cluster.where, options.names or NAMES)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster", description="A real Kubernetes on this machine, for tests."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="say what this machine lacks to carry it")
    commands.add_parser("up", help="bring it up, or repair it")
    commands.add_parser("down", help="end it and remove all that it left")
    commands.add_parser("status", help="say what runs")
    commands.add_parser("kubeconfig", help="print where its kubeconfig is")
    load = commands.add_parser("load", help="give it images from OCI archives")
    load.add_argument("archives", type=Path, nargs="+")
    tools = commands.add_parser("tools", help="build its programs and nothing else")
    tools.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME")
    return parser
