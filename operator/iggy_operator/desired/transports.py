"""How clients reach a broker: ports, the settings behind them, the certificate. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from iggy_operator.desired.metadata import Manifest
from iggy_operator.resources import Broker

TCP_PORT: Final = 8090
"""Inside the pod. Clients meet `listeners.tcpPort`, so that changing it restarts nothing."""
HTTP_PORT: Final = 3000
"""Inside the pod, as the other; clients meet `listeners.httpPort`."""
WEBSOCKET_PORT: Final = 8092
QUIC_PORT: Final = 8080
MONITORING_PORT: Final = 9099
"""Probes and metrics: never encrypted, and without data of messages."""

CERT_KEY: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"
TLS_KEYS: Final = (CERT_KEY, PRIVATE_KEY)
"""Of a Secret of type kubernetes.io/tls."""
TLS_VOLUME: Final = "tls"
TLS_PATH: Final = "/etc/iggy-tls"
FILE_MODE: Final = 0o440
"""Readable by the pod's group, whose number Kubernetes gives to the files."""

_FURTHER: Final = (("websocket", WEBSOCKET_PORT, "TCP"), ("quic", QUIC_PORT, "UDP"))
"""Transports that are there only where a port is asked for."""
_CERTIFICATES: Final = ("TCP_TLS", "HTTP_TLS", "WEBSOCKET_TLS", "QUIC_CERTIFICATE")
"""Sections of the broker's settings, as parts of their variables."""


def tls_secret(broker: Broker) -> str:
    """The Secret with the certificate; empty: nothing is encrypted."""
    return str(broker.spec["listeners"].get("tls", {}).get("secretName", ""))


def transport_settings(broker: Broker) -> dict[str, str]:
    """By environment variable, in a pod."""
    return {
        **port_settings(broker, "0.0.0.0", {name: port for name, port, _ in _FURTHER}),
        **(certificate_settings(TLS_PATH) if tls_secret(broker) else {}),
    }


def port_settings(broker: Broker, host: str, ports: Mapping[str, int]) -> dict[str, str]:
    """Of the transports that are asked for; `ports` by their names."""
    settings: dict[str, str] = {}
    for name in further(broker):
        settings[f"IGGY_{name.upper()}_ENABLED"] = "true"
        settings[f"IGGY_{name.upper()}_ADDRESS"] = f"{host}:{ports[name]}"
    return settings


def certificate_settings(folder: str) -> dict[str, str]:
    """Of all listeners: the files of one certificate."""
    settings: dict[str, str] = {}
    for section in _CERTIFICATES:
        settings |= {
            f"IGGY_{section}_SELF_SIGNED": "false",
            f"IGGY_{section}_CERT_FILE": f"{folder}/{CERT_KEY}",
            f"IGGY_{section}_KEY_FILE": f"{folder}/{PRIVATE_KEY}",
        }
        if section.endswith("_TLS"):  # QUIC always encrypts
            settings[f"IGGY_{section}_ENABLED"] = "true"
    return settings


def own_keys(broker: Broker) -> tuple[str, ...]:
    """What `spec.config` must leave alone, as the beginning of a key with underscores."""
    ports = (f"{name}_{part}" for name in further(broker) for part in ("enabled", "address"))
    sections = _CERTIFICATES if tls_secret(broker) else ("TCP_TLS",)
    return (*ports, *(f"{section.lower()}_" for section in sections))


def further(broker: Broker) -> tuple[str, ...]:
    """Names of the transports beside TCP and HTTP that are asked for."""
    listeners = broker.spec["listeners"]
    return tuple(name for name, _, _ in _FURTHER if f"{name}Port" in listeners)


def asked(broker: Broker) -> dict[str, Any]:
    """What of `spec.listeners` the process itself knows: a change restarts it."""
    listeners = broker.spec["listeners"]
    found: dict[str, Any] = {}
    if advertised := listeners.get("advertisedAddress"):
        found["advertisedAddress"] = advertised
    if transports := further(broker):
        found["transports"] = list(transports)
    if secret := tls_secret(broker):
        found["tlsSecretName"] = secret
    return found


def container_ports(broker: Broker) -> list[Manifest]:
    """All of the pod."""
    ports = [
        ("tcp", TCP_PORT, "TCP"),
        ("http", HTTP_PORT, "TCP"),
        ("monitoring", MONITORING_PORT, "TCP"),
        *(item for item in _FURTHER if item[0] in further(broker)),
    ]
    return [
        {"name": name, "containerPort": number, "protocol": protocol}
        for name, number, protocol in ports
    ]


def service_ports(broker: Broker) -> list[Manifest]:
    """Those that clients meet, TCP first."""
    listeners = broker.spec["listeners"]
    return [
        service_port("tcp", listeners["tcpPort"]),
        service_port("http", listeners["httpPort"]),
        *(
            service_port(name, listeners[f"{name}Port"], protocol)
            for name, _, protocol in _FURTHER
            if name in further(broker)
        ),
    ]


def service_port(name: str, number: int, protocol: str = "TCP") -> Manifest:
    """One that leads to the container's port of the same name."""
    return {"name": name, "port": number, "targetPort": name, "protocol": protocol}


def client_ports(broker: Broker) -> list[Manifest]:
    """As a NetworkPolicy names them."""
    ports = [("tcp", "TCP"), ("http", "TCP")]
    ports += [(name, protocol) for name, _, protocol in _FURTHER if name in further(broker)]
    return [{"port": name, "protocol": protocol} for name, protocol in ports]


def tls_volumes(broker: Broker) -> Iterator[Manifest]:
    """The Secret as files, which the kubelet renews and the broker reads again."""
    if secret := tls_secret(broker):
        yield {
            "name": TLS_VOLUME,
            "secret": {
                "secretName": secret,
                "defaultMode": FILE_MODE,
                "items": [{"key": key, "path": key} for key in TLS_KEYS],
            },
        }


def tls_mounts(broker: Broker) -> list[Manifest]:
    """Whole, not by `subPath`: such a file would never change."""
    if not tls_secret(broker):
        return []
    return [{"name": TLS_VOLUME, "mountPath": TLS_PATH, "readOnly": True}]


def served_secret(pod_spec: Mapping[str, Any]) -> str:
    """The Secret whose certificate a pod serves; empty: it speaks plain text."""
    for volume in pod_spec.get("volumes", ()):
        if volume["name"] == TLS_VOLUME:
            return str(volume["secret"]["secretName"])
    return ""
