"""What a broker's document says about archive, keys and transports, for this machine's broker.

The same settings as in a cluster. In place of a claim there is a folder, and Secrets stand in the
files: those of a bucket go into the broker's environment, keys of messages become files. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iggy_operator.desired.archive import (
    CA_BUNDLE,
    LOGIN_KEYS,
    Place,
    archive_place,
    archive_problems,
    archiver_authority,
    archiver_login,
    archiver_settings,
    reads_own,
    restore_authority,
    restore_command,
    restore_place,
    restore_settings,
)
from iggy_operator.desired.broker_config import transport_problems
from iggy_operator.desired.encryption import encryption_settings, key_names
from iggy_operator.desired.transports import (
    TLS_KEYS,
    certificate_settings,
    further,
    port_settings,
    tls_secret,
)
from iggy_operator.documents import FileProblem
from iggy_operator.names import CA_KEY
from iggy_operator.resources import Broker, Resources
from iggy_operator.secret_documents import Secret
from iggykube.local.certificate import certificate_problems
from iggykube.local.folders import HOST, Folders
from iggykube.local.places import document_of

Secrets = Mapping[tuple[str, str], Secret]


@dataclass(frozen=True, slots=True)
class Named:
    """A Secret that a broker names."""

    field: tuple[str, ...]
    name: str
    keys: tuple[str, ...]


def named_secrets(broker: Broker) -> Iterator[Named]:
    """All of them."""
    for block in (("archiver", "s3"), ("restoreFrom", "s3")):
        part = broker.spec.get(block[0], {}).get(block[1], {})
        if name := part.get("credentialsSecretName"):
            yield Named((*block, "credentialsSecretName"), name, LOGIN_KEYS)
        if name := part.get("caSecretName"):
            yield Named((*block, "caSecretName"), name, (CA_KEY,))
    if keys := key_names(broker):
        yield Named(("encryption", "secretName"), broker.spec["encryption"]["secretName"], keys)
    tls = broker.spec["listeners"].get("tls", {})
    for name, keys in (("secretName", TLS_KEYS), ("caSecretName", (CA_KEY,))):
        if name in tls:
            yield Named(("listeners", "tls", name), tls[name], keys)


def setting_problems(resources: Resources) -> Iterator[FileProblem]:
    """What of it cannot be had, at its place."""
    for broker in resources.brokers:
        document = document_of(resources, "IggyBroker", broker.key)
        for text in (*archive_problems(broker), *transport_problems(broker)):
            field, _, message = text.partition(": ")
            yield document.problem(("spec", *field.split(".")), message)


def broker_secret_problems(resources: Resources) -> Iterator[FileProblem]:
    """Secrets that a broker names and that stand in none of the files, or lack a key."""
    known = {(item.namespace, item.name): item for item in resources.secrets}
    for broker in resources.brokers:
        document = document_of(resources, "IggyBroker", broker.key)
        for item in named_secrets(broker):
            secret = known.get((broker.key.namespace, item.name))
            if secret is None:
                text = f"there is no Secret {item.name}: add one of kind Secret to the files"
                yield document.problem(("spec", *item.field), text)
            elif missing := sorted(set(item.keys) - set(secret.values)):
                text = f"Secret {item.name} lacks {', '.join(missing)}: add what is missing"
                yield document.problem(("spec", *item.field), text)
        for path, text in certificate_problems(known, broker):
            yield document.problem(path, text)


def archive_folder(place: Place, folders: Folders) -> Path:
    """In place of a claim's volume."""
    _, namespace, claim = place.store
    return folders.claims / namespace / claim / "archive"


def broker_settings(broker: Broker, folders: Folders, secrets: Secrets) -> dict[str, str]:
    """By environment variable, with logins."""
    place = archive_place(broker)
    folder = "" if place is None else str(archive_folder(place, folders))
    secret = broker.spec.get("encryption", {}).get("secretName", "")
    return {
        **_transport_settings(broker, folders),
        **archiver_settings(broker, folder=folder),
        **_authority(archiver_authority(broker), broker, folders),
        **_resolved(archiver_login(broker), broker, secrets),
        **encryption_settings(broker, str(folders.secret(broker.key.namespace, secret))),
    }


def _transport_settings(broker: Broker, folders: Folders) -> dict[str, str]:
    """On the ports of the Service: here there is none in between."""
    listeners = broker.spec["listeners"]
    ports = {name: listeners[f"{name}Port"] for name in further(broker)}
    settings = port_settings(broker, HOST, ports)
    if secret := tls_secret(broker):
        settings |= certificate_settings(str(folders.secret(broker.key.namespace, secret)))
    return settings


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What fills an empty data directory before the broker starts."""

    arguments: tuple[str, ...]
    """Of `iggy-broker`."""
    environment: Mapping[str, str] = field(repr=False)
    """In place of the broker's own settings of its archive."""
    summary: Path
    """Where it says what came back."""


def restore_plan(broker: Broker, folders: Folders, secrets: Secrets) -> RestorePlan | None:
    """None: an empty directory stays empty."""
    if (place := restore_place(broker)) is None:
        return None
    folder = str(archive_folder(place, folders))
    summary = folders.run / "restored.json"
    _, *arguments = restore_command(broker, folder=folder, summary=str(summary))
    values, login = restore_settings(broker)
    replaced = {*archiver_login(broker)}
    if not reads_own(broker):
        replaced |= {*archiver_settings(broker)}
    own = broker_settings(broker, folders, secrets)
    kept = {name: value for name, value in own.items() if name not in replaced}
    own_authority = archiver_authority(broker) if reads_own(broker) else ""
    authority = _authority(restore_authority(broker) or own_authority, broker, folders)
    environment = {**kept, **values, **authority, **_resolved(login, broker, secrets)}
    return RestorePlan(tuple(arguments), environment, summary)


def _authority(secret: str, broker: Broker, folders: Folders) -> dict[str, str]:
    """Where the file of a Secret is on this machine."""
    if not secret:
        return {}
    return {CA_BUNDLE: str(folders.secret(broker.key.namespace, secret) / CA_KEY)}


def _resolved(
    login: Mapping[str, tuple[str, str]], broker: Broker, secrets: Secrets
) -> dict[str, str]:
    namespace = broker.key.namespace
    return {
        variable: secrets[namespace, name].values[key].decode().strip()
        for variable, (name, key) in login.items()
    }
