"""Passwords change while clients work: of users, of root, generated and imported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from e2e_broker import BROKER, POD, STREAM, TOPIC, broker, make, ours, root, stream, topic
from e2e_kubectl import Document, Kubectl
from e2e_operator import Operator
from e2e_producer import Login, Producer, login_of, numbered, producing, service_address
from iggy_client import Client, ClientError
from waiting import wait_until

OPERATOR_VALUES = {"replicas": 1}
OPERATOR_DELETES = {"secrets"}
ENOUGH = 200
FOLLOWED_WITHIN_S = 60.0  # this is what was asked for
PAST = "2026-01-01T00:00:00Z"
IMPORTED = "imported-password"

Note = Callable[[str], None]


@pytest.fixture(scope="module")
def work(operator: Operator) -> Kubectl:
    """A broker, a user with a generated password, and one with a password of somebody's own."""
    kubectl = operator.work
    kubectl.apply(secret("first-password"))
    make(
        kubectl,
        broker(),
        stream(),
        topic(),
        user("generated"),
        user("imported", passwordSecretRef={"name": IMPORTED}),
    )
    return kubectl


def user(name: str, **spec: object) -> Document:
    grants = {"topic": TOPIC, "allow": ["ReadTopic", "SendMessages"]}
    rights = {"streams": [{"stream": STREAM, "topics": [grants]}]}
    return ours("IggyUser", name, brokerRef={"name": BROKER}, permissions=rights, **spec)


def secret(password: str) -> Document:
    metadata = {"name": IMPORTED}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {"password": password},
    }


@pytest.fixture
def pod(work: Kubectl) -> Iterator[None]:
    """Whatever is rotated, the broker's process goes on."""
    before = work.get("pod", POD)["status"]["containerStatuses"]
    yield
    assert work.get("pod", POD)["status"]["containerStatuses"] == before


@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize("who", ["generated", BROKER])
def test_a_generated_password_is_rotated_while_its_client_works(
    work: Kubectl, who: str, measured: Note
) -> None:
    login = login_of_whom(work, who)
    kind = "igb" if who == BROKER else "igu"

    with producing(Producer(login, STREAM, TOPIC, numbered(keys=8, rows=10))) as producer:
        wait_until(lambda: len(producer.acknowledged) >= ENOUGH, "messages are acknowledged")
        began = time.monotonic()
        work("annotate", kind, who, f"iggykube.dev/rotate-password-at={PAST}")
        wait_until(
            lambda: may_enter(login_of_whom(work, who)) and not may_enter(login),
            "the new password is let in, and the old one not",
            FOLLOWED_WITHIN_S,
        )
        measured(f"password of {who} rotated after {time.monotonic() - began:.1f} s")
        count = len(producer.acknowledged) + ENOUGH
        wait_until(lambda: len(producer.acknowledged) >= count, "its session goes on")

    assert not producer.unanswered
    work.wait(f"{kind}/{who}", "condition=Ready")
    make(work, topic("made-with-the-new-one") if who == BROKER else topic())


@pytest.mark.usefixtures("pod")
def test_an_imported_password_is_followed_within_a_minute(work: Kubectl, measured: Note) -> None:
    old = login_of_whom(work, "imported")
    assert (old.password, may_enter(old)) == ("first-password", True)

    began = time.monotonic()
    work.apply(secret("second-password"))
    new = Login(old.address, old.username, "second-password")
    wait_until(lambda: may_enter(new), "the new password is let in", FOLLOWED_WITHIN_S)
    measured(f"imported password followed after {time.monotonic() - began:.1f} s")

    assert not may_enter(old)
    wait_until(lambda: login_of_whom(work, "imported") == new, "the Secret for programs has it")


def login_of_whom(kubectl: Kubectl, who: str) -> Login:
    if who == BROKER:
        return root(kubectl)
    return login_of(kubectl, f"{who}-iggy", service_address(kubectl, BROKER))


def may_enter(login: Login) -> bool:
    try:
        with Client.connect(login.address, login.username, login.password):
            return True
    except ClientError:
        return False
