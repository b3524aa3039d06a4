"""Settings of the operator program: variables of the environment, read once.

A wrong value ends the program with a sentence that names the variable and what to write instead.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import API_VERSION, VERSION
from iggy_operator.desired.release import Release
from iggy_operator.validation import check, path_text

PREFIX: Final = "IGGY_OPERATOR_"
LEVELS: Final = ("debug", "info", "warning", "error")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE_LINK: Final = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_\w+)?)")
_POD_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class SettingError(Exception):
    """A value that cannot be used; the message names the variable and the fix."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable."""

    name: str
    """Without the prefix."""
    default: str
    meaning: str
    read: Callable[[str], Any]
    """Raises ValueError, which says what to write."""

    @property
    def variable(self) -> str:
        """With the prefix."""
        return PREFIX + self.name


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them."""

    namespace: str
    pod_name: str
    watch_namespaces: tuple[str, ...]
    broker_image: str
    spark_image: str
    spark_version: str
    image_pull_policy: str
    image_pull_secrets: tuple[str, ...]
    restart_on_upgrade: bool
    default_broker: Mapping[str, Any]
    http_port: int
    lease_name: str
    lease_seconds: int
    workers: int
    resync_seconds: int
    watch_silence_seconds: int
    log_level: str

    @property
    def release(self) -> Release:
        """What passes need of it."""
        return Release(
            broker_image=self.broker_image,
            spark_image=self.spark_image,
            spark_version=self.spark_version,
            operator_namespace=self.namespace,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            restart_on_upgrade=self.restart_on_upgrade,
            default_broker=self.default_broker,
        )


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none.

    They are no error: Kubernetes itself tells each pod of a Service `iggy-operator` by such names.
    """
    known = {setting.variable for setting in SETTINGS}
    return sorted(
        variable
        for variable in environment
        if variable.startswith(PREFIX)
        and variable not in known
        and not _SERVICE_LINK.fullmatch(variable.removeprefix(PREFIX))
    )


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Values of `SETTINGS`; an empty variable counts as not set. Raises SettingError."""
    values = {}
    for setting in SETTINGS:
        text = environment.get(setting.variable, "").strip() or setting.default
        try:
            values[setting.name.lower()] = setting.read(text)
        except ValueError as error:
            raise SettingError(f"{setting.variable}={text!r}: {error}") from None
    return Settings(**values)


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise ValueError(f"write a whole number from {low} to {high}")
        return int(text)

    return read


def _word(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError("write one of " + ", ".join(words))
        return text

    return read


def _switch(text: str) -> bool:
    return _word("true", "false")(text) == "true"


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("write a name of at most 63 lower-case letters, digits and hyphens")
    return text


def _pod_name(text: str) -> str:
    if not _POD_NAME.fullmatch(text):
        raise ValueError("write the name of the pod, by the downward API")
    return text


def _names(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if not _POD_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: write names with commas between them")
    return found


def _text(text: str) -> str:
    if any(mark.isspace() for mark in text):
        raise ValueError("write it without spaces")
    return text


def _default_broker(text: str) -> dict[str, Any]:
    try:
        spec = json.loads(text)
    except ValueError as error:
        raise ValueError(f"write the spec of an IggyBroker as JSON ({error})") from None
    if not isinstance(spec, dict):
        raise ValueError("write a JSON object: the spec of an IggyBroker")
    metadata = {"name": "iggy", "namespace": "default"}
    value = {"apiVersion": API_VERSION, "kind": "IggyBroker", "metadata": metadata, "spec": spec}
    for problem in check(value).problems:
        raise ValueError(f"{path_text(problem.path)}: {problem.message}")
    return spec


SETTINGS: Final = (
    Setting("NAMESPACE", "default", "Where the operator itself runs, and its Lease is.", _name),
    Setting("POD_NAME", "iggy-operator", "Name of this pod: who holds the Lease.", _pod_name),
    Setting(
        "WATCH_NAMESPACES",
        "",
        "Namespaces that are watched, with commas; empty: the whole cluster.",
        _names,
    ),
    Setting(
        "BROKER_IMAGE",
        f"iggykube/broker:{VERSION}",
        "Image of brokers whose spec names none.",
        _text,
    ),
    Setting(
        "SPARK_IMAGE",
        f"iggykube/spark:{VERSION}",
        "Image of sinks and sources whose spec names none.",
        _text,
    ),
    Setting("SPARK_VERSION", "4.3.0", "Version of Spark in that image.", _text),
    Setting(
        "IMAGE_PULL_POLICY",
        "IfNotPresent",
        "When images are pulled, where the spec says nothing: Always, IfNotPresent or Never.",
        _word("Always", "IfNotPresent", "Never"),
    ),
    Setting(
        "IMAGE_PULL_SECRETS", "", "Secrets in the pods' namespaces, by name, with commas.", _names
    ),
    Setting(
        "RESTART_ON_UPGRADE",
        "false",
        "Whether brokers take over at once what a new release renders.",
        _switch,
    ),
    Setting(
        "DEFAULT_BROKER",
        "{}",
        "Spec of the IggyBroker that is made where brokerRef is left out, as JSON.",
        _default_broker,
    ),
    Setting("HTTP_PORT", "8080", "Port of metrics and probes; 0: any.", _number(0, 65_535)),
    Setting("LEASE_NAME", "iggy-operator", "Lease of the one replica that works.", _name),
    Setting(
        "LEASE_SECONDS",
        "15",
        "Seconds for which a replica that is gone still holds it.",
        _number(3, 300),
    ),
    Setting("WORKERS", "8", "Passes that run at the same time.", _number(1, 64)),
    Setting(
        "RESYNC_SECONDS", "60", "Seconds between two looks at every object.", _number(1, 3_600)
    ),
    Setting(
        "WATCH_SILENCE_SECONDS",
        "600",
        "A watch that brings nothing for so many seconds, not even a bookmark, fails the liveness "
        "probe; after half of it all watches are begun anew.",
        _number(4, 3_600),
    ),
    Setting("LOG_LEVEL", "info", "debug, info, warning or error.", _word(*LEVELS)),
)
"""Every setting, in the order in which they are explained."""
