"""The first process: prepares everything that shards share, forks them, and waits.

If one shard ends, all are stopped and we end with an error: there is no half-alive broker, and
start-up is always the same recovery. Everything is imported before the fork and kept out of the
garbage collector's sight, so that the shards share the memory.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import platform
import secrets
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from iggy_broker import __version__, logs
from iggy_broker import config as configuration
from iggy_broker.clock import Clock, SystemClock
from iggy_broker.config import Config
from iggy_broker.cores import usable_cores
from iggy_broker.errors import CertificateError
from iggy_broker.heap import return_large_blocks, return_what_is_free, unmap_code
from iggy_broker.logs import event
from iggy_broker.metadata import recovery
from iggy_broker.metadata.journal import Journal, JournalFull
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import MetadataDamaged
from iggy_broker.metrics import SharedCounters
from iggy_broker.net.http.revocations import (
    SECRET_BYTES,
    configured_secret,
    kept_revocations,
    kept_secret,
)
from iggy_broker.net.listener import ListenError, addresses_of, bind_all, tls_of
from iggy_broker.shard import EXIT_FAILED, Plan, run_shard
from iggy_broker.storage.disk import Disk, RealDisk, StorageFailed
from iggy_broker.storage.format_version import (
    ENCRYPTED_FORMAT,
    PLAIN_FORMAT,
    FormatVersionError,
    check_format,
    empty_directory,
)
from iggy_broker.storage.keys import KeysError, read_keys
from iggy_broker.storage.lock import DirectoryLock, DirectoryLockedError
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.removal import remove_leftovers
from iggy_broker.surroundings import SIGNALS
from iggy_broker.transports import HttpSecrets, import_for
from iggy_wire import kernel
from iggy_wire.dialect import SERVED
from iggy_wire.sealing import Keyring

logger = logging.getLogger(__name__)

STOP_GRACE_S: Final = 10.0  # beyond the drain time, for syncing and markers; then shards are killed
LINK_BUFFER_BYTES: Final = 4 * 1024 * 1024  # wished for each direction; the system may give less
_READY_STEP_S: Final = 0.01
_NOTE_STEP_S: Final = 1.0  # a full disk had no room for the file with the settings in force
CANNOT_START: Final = (
    DirectoryLockedError, FormatVersionError, MetadataDamaged, JournalFull, StorageFailed,
    ListenError, CertificateError, KeysError, OSError,
)  # fmt: skip


@dataclass(slots=True)
class _Broker:
    """What the supervisor holds on to."""

    config: Config
    shards_count: int
    counters: SharedCounters
    lock: DirectoryLock  # inherited by the shards: it lasts as long as any of us lives
    shards: dict[int, int]  # process → shard
    keys: Keyring


def supervise(config: Config, *, fresh: bool = False) -> int:
    """Run a broker until it is stopped; the exit code. `fresh`: empty the data directory first.

    Raises one of CANNOT_START, with the reason and the fix in its text.
    """
    return_large_blocks()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # whoever stops a start gets a clean stop
    _introduce(config)
    keys = _keys(config)
    lock = DirectoryLock.acquire_soon(str(config.system.path))
    if fresh:
        empty_directory(RealDisk(), str(config.system.path))
        logs.warn(logs.Note("directory_emptied", f"{config.system.path}: emptied, as was asked"))
    current_config_path(config.system.path).unlink(missing_ok=True)
    state, log = recover(config, RealDisk(), SystemClock())
    if tls_of(config):
        # Before the fork, to be shared, and because a certificate that is none stops the start.
        importlib.import_module("iggy_broker.net.tls").prepare(config)
    shards_count = config.shards_count(usable_cores())
    counters = SharedCounters(shards_count)
    broker = _Broker(config, shards_count, counters, lock, {}, keys)
    plans, bound, lifeline = _plans(broker, state, log)
    import_for(config)  # before the fork, to be shared
    gc.collect()
    return_what_is_free()
    gc.freeze()
    for plan in plans:
        _fork(broker, plan, plans, lifeline=lifeline)
    unmap_code()
    _close_sockets(plans)
    return _wait(broker, bound)


def _introduce(config: Config) -> None:
    """Say in the log what runs here, and with which settings."""
    logger.info(
        "= starting iggy-broker %s",
        __version__,
        extra=event(
            "starting",
            version=__version__,
            protocol=SERVED,
            python=platform.python_version(),
            system=platform.platform(),
            kernel="compiled" if kernel.COMPILED else "python",
            settings=configuration.settings(config),
        ),
    )


def _keys(config: Config) -> Keyring:
    keys = read_keys(config.system.encryption)
    if keys.key_id:
        told = event("encryption", key_id=keys.key_id, keys=len(keys.ids))
        logger.info("= messages are encrypted with key %s", keys.key_id, extra=told)
    return keys


def recover(config: Config, disk: Disk, clock: Clock) -> tuple[State, Journal]:
    """What is done once, before there are shards: the metadata and its journal."""
    least = ENCRYPTED_FORMAT if config.system.encryption.enabled else PLAIN_FORMAT
    check_format(disk, str(config.system.path), least=least)
    remove_leftovers(disk, str(config.system.path))
    opened = recovery.open_metadata(config, disk=disk, clock=clock, warn=logs.warn)
    for note in opened.notes:
        logs.warn(note)
    if opened.first_password is not None:
        # Once, on standard output, and never in a log: whoever starts a new broker reads it here.
        name = config.root.username
        sys.stdout.write(f"root user {name!r}, password: {opened.first_password}\n")
        sys.stdout.flush()
    return opened.state, opened.journal


def _plans(broker: _Broker, state: State, log: Journal) -> tuple[list[Plan], Config, int]:
    """One plan per shard, the settings with ports as bound, and the writing end of the lifeline."""
    config, count = broker.config, broker.shards_count
    monitoring = config.monitoring
    listeners = {
        name: bind_all(
            address.host,
            address.port,
            count,
            key=f"{name}.address",
            kind=socket.SOCK_DGRAM if name == "quic" else socket.SOCK_STREAM,
        )
        for name, address in addresses_of(config).items()
    }
    ports: dict[str, int] = {name: all_[0].getsockname()[1] for name, all_ in listeners.items()}
    watch = None
    if monitoring.enabled:
        address = monitoring.address
        (watch,) = bind_all(address.host, address.port, 1, key="monitoring.address")
    http = _http_secrets(config)
    links = _pairs(count, socket.SOCK_STREAM)
    doors = _pairs(count, socket.SOCK_SEQPACKET)
    lifeline_end, lifeline = os.pipe()
    table = PartitionTable()
    started_at_us = SystemClock().now_us()
    plans = [
        Plan(
            shard_id=shard,
            shards_count=count,
            config=config,
            state=state,
            journal=log if shard == 0 else None,
            table=table,
            counters=broker.counters,
            listeners={name: sockets[shard] for name, sockets in listeners.items()},
            monitoring=watch if shard == 0 else None,
            links=links[shard],
            doors=doors[shard],
            lifeline=lifeline_end,
            ports=ports,
            started_at_us=started_at_us,
            keys=broker.keys,
            http=http,
        )
        for shard in range(count)
    ]
    return plans, _bound(config, ports, watch), lifeline


def _http_secrets(config: Config) -> HttpSecrets | None:
    """Of this life and the next ones; None if HTTP is off."""
    settings, root = config.http, config.system.path
    if not settings.enabled:
        return None
    configured = configured_secret(settings.jwt)
    if settings.strict_compat:
        return HttpSecrets(configured or secrets.token_bytes(SECRET_BYTES), {})
    now_s = SystemClock().now_us() // 1_000_000
    revoked = kept_revocations(root, now_s=now_s)
    try:
        return HttpSecrets(configured or kept_secret(root), revoked)
    except OSError as error:
        why = f"{error.strerror}: logins over HTTP end with this broker; free some space"
        logs.warn(logs.Note("runtime_file_missing", f"{root}/runtime: {why}"))
        return HttpSecrets(secrets.token_bytes(SECRET_BYTES), revoked)


def _bound(config: Config, ports: dict[str, int], watch: socket.socket | None) -> Config:
    """The settings with the ports that the system picked."""
    replace = msgspec.structs.replace
    bound = ports if watch is None else ports | {"monitoring": watch.getsockname()[1]}
    for name, port in bound.items():
        section = getattr(config, name)
        section = replace(section, address=replace(section.address, port=port))
        config = replace(config, **{name: section})
    return config


def _pairs(count: int, kind: int) -> list[dict[int, socket.socket]]:
    """A connected pair for every two shards: by shard, its ends by the other shard."""
    links: list[dict[int, socket.socket]] = [{} for _ in range(count)]
    for one in range(count):
        for other in range(one + 1, count):
            links[one][other], links[other][one] = pair = socket.socketpair(type=kind)
            for end in pair:
                end.setblocking(False)
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    end.setsockopt(socket.SOL_SOCKET, option, LINK_BUFFER_BYTES)
    return links


def _fork(broker: _Broker, plan: Plan, plans: list[Plan], *, lifeline: int) -> None:
    process = os.fork()
    if process:
        broker.shards[process] = plan.shard_id
        return
    code = EXIT_FAILED
    try:
        os.close(lifeline)
        _close_sockets([other for other in plans if other is not plan])
        logs.set_up(broker.config.system.logging.level, shard=plan.shard_id)
        code = run_shard(plan)
    except BaseException:
        told = event("shard_failed")
        logger.critical("! shard %d failed", plan.shard_id, exc_info=True, extra=told)
    finally:
        # Never back into the supervisor's code, whatever happened.
        with contextlib.suppress(OSError):  # they may be files on a full disk
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _close_sockets(plans: list[Plan]) -> None:
    for plan in plans:
        ways = (*plan.listeners.values(), *plan.links.values(), *plan.doors.values())
        for sock in (plan.monitoring, *ways):
            if sock is not None:
                sock.close()


# -- waiting -----------------------------------------------------------------------------------


def _wait(broker: _Broker, bound: Config) -> int:
    """Until a signal or a dead shard; then stop all. The exit code."""
    ready = noted = False
    while True:
        step_s = 3600 if noted else _NOTE_STEP_S if ready else _READY_STEP_S
        caught = signal.sigtimedwait(SIGNALS, step_s)
        if ready and not noted:
            noted = _note_config(bound) is None
        if not ready and broker.counters.all_ready:
            ready = True
            noted = _announce(broker, bound)
        if caught is None:
            continue
        if caught.si_signo != signal.SIGCHLD:
            logger.info("= stopping", extra=event("stopping"))
            return _stop(broker, code=0)
        if dead := _reap(broker):
            told = event("shard_ended", ended=dead[0], code=dead[1])
            logger.critical("! shard %d ended with %d; stopping all", *dead, extra=told)
            return _stop(broker, code=EXIT_FAILED)


def _announce(broker: _Broker, bound: Config) -> bool:
    """Say that all shards are ready, also in the file with the ports as bound. Is it written?"""
    refused = _note_config(bound)
    if refused is not None:
        path = current_config_path(bound.system.path)
        told = event("runtime_file_missing")
        logger.warning("! %s: not written yet: %s", path, refused, extra=told)
    logger.info(
        "= ready",
        extra=event(
            "ready",
            **{name: str(address) for name, address in addresses_of(bound).items()},
            monitoring=str(bound.monitoring.address) if bound.monitoring.enabled else None,
            shards=broker.shards_count,
        ),
    )
    return refused is None


def _note_config(bound: Config) -> OSError | None:
    """Write the settings in force, for people and programs. What the disk has against it."""
    path = current_config_path(bound.system.path)
    try:
        path.parent.mkdir(exist_ok=True)
        RealDisk().write_file(str(path), configuration.effective(bound).encode(), sync=False)
    except OSError as error:
        return error
    return None


def _stop(broker: _Broker, *, code: int) -> int:
    """Stop every shard, in bounded time. 0 only if all ended well."""
    for process in broker.shards:
        os.kill(process, signal.SIGTERM)
    drain_s = broker.config.system.sharding.shutdown_drain_timeout_us / 1_000_000
    deadline = time.monotonic() + drain_s + STOP_GRACE_S
    while broker.shards and (left_s := deadline - time.monotonic()) > 0:
        if dead := _reap(broker):
            code = code or (EXIT_FAILED if dead[1] else 0)
        elif broker.shards:
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
    for process, shard in broker.shards.items():
        told = event("shard_killed", killed=shard)
        logger.critical("! shard %d did not stop; killed", shard, extra=told)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        code = EXIT_FAILED
    with contextlib.suppress(OSError):
        current_config_path(broker.config.system.path).unlink(missing_ok=True)
    logger.info("= stopped", extra=event("stopped", code=code))
    return code


def _reap(broker: _Broker) -> tuple[int, int] | None:
    """A shard that ended, and how; None if all live."""
    for process in list(broker.shards):
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return broker.shards.pop(process), os.waitstatus_to_exitcode(status)
    return None


def current_config_path(root: Path) -> Path:
    """Where the running broker writes its configuration, ports as bound."""
    return root / "runtime" / "current_config.toml"
