from typing import Any

import pytest

from desired_cases import NEXT_RELEASE, RELEASE, broker_of, children_of
from iggy_operator.desired.metadata import RESTART_AT, USER_HASH, Manifest
from iggy_operator.desired.staging import Change, stage

FIRST, SECOND = "2026-05-01T12:00:00Z", "2026-05-02T12:00:00Z"


def stateful_set(*, restart_at: str = "", release: Any = RELEASE, **spec: Any) -> Manifest:
    return children_of(broker_of(**spec), release, restart_at=restart_at)["StatefulSet"]


def image_of(manifest: Manifest) -> str:
    return str(manifest["spec"]["template"]["spec"]["containers"][0]["image"])


def test_the_first_one_is_as_wanted() -> None:
    wanted = stateful_set()

    assert stage(None, wanted).manifest == wanted


def test_nothing_changes_without_a_change() -> None:
    running = stateful_set()

    staged = stage(running, stateful_set())

    assert staged.change is Change.NONE
    assert staged.manifest == running


def test_a_new_release_waits_and_says_what_for() -> None:
    running = stateful_set()

    staged = stage(running, stateful_set(release=NEXT_RELEASE))

    assert staged.change is Change.RELEASE
    assert staged.manifest["spec"]["template"] == running["spec"]["template"]
    assert staged.waiting == ("image: iggykube/broker:1.0.0 → iggykube/broker:1.1.0",)


def test_a_new_release_restarts_where_that_is_wished() -> None:
    wanted = stateful_set(release=NEXT_RELEASE)

    staged = stage(stateful_set(), wanted, releases_restart=True)

    assert staged.manifest == wanted


def test_what_the_api_server_adds_is_no_difference() -> None:
    running = stateful_set()
    running["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler"
    running["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] = "/dev/x"

    staged = stage(running, stateful_set(release=NEXT_RELEASE))

    assert len(staged.waiting) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"config": {"heartbeat.interval": "40 s"}},
        {"shards": {"count": 2}},
        {"resources": {"limits": {"memory": "1Gi"}}},
        {"image": "other:1"},
        {"podTemplate": {"nodeSelector": {"disk": "ssd"}}},
    ],
)
def test_a_users_change_restarts_and_brings_the_new_release_along(spec: dict[str, Any]) -> None:
    staged = stage(stateful_set(), stateful_set(release=NEXT_RELEASE, **spec))

    assert staged.change is Change.USER
    assert image_of(staged.manifest) in ("iggykube/broker:1.1.0", "other:1")


@pytest.mark.parametrize(
    "spec",
    [
        {"storage": {"size": "20Gi"}},
        {"listeners": {"tcpPort": 18090, "serviceType": "NodePort"}},
        {"allowedNamespaces": {"from": "All"}},
        {"monitoring": {"podMonitor": True}},
        {"networkPolicy": {"enabled": False}},
        {"updateStrategy": "OnDelete"},
        {"hibernate": True},
        {"podTemplate": {"terminationGracePeriodSeconds": 60}},  # the default, written out
        {"shards": {"pinCores": False}},
    ],
)
def test_other_changes_leave_the_pod_alone(spec: dict[str, Any]) -> None:
    running = stateful_set()

    staged = stage(running, stateful_set(**spec))

    assert staged.change is Change.NONE
    assert staged.manifest["spec"]["template"] == running["spec"]["template"]


def test_a_restart_that_is_asked_for_applies_what_waits() -> None:
    staged = stage(stateful_set(), stateful_set(release=NEXT_RELEASE, restart_at=FIRST))

    assert staged.change is Change.RESTART
    assert image_of(staged.manifest) == "iggykube/broker:1.1.0"


def test_a_restart_happens_once() -> None:
    running = stateful_set(restart_at=FIRST)

    assert stage(running, stateful_set(restart_at=FIRST)).manifest == running
    assert stage(running, stateful_set(restart_at=SECOND)).change is Change.RESTART


def test_a_mark_that_is_taken_away_restarts_nothing() -> None:
    running = stateful_set(restart_at=FIRST)

    staged = stage(running, stateful_set())

    assert staged.change is Change.NONE
    assert staged.manifest["spec"]["template"] == running["spec"]["template"]
    assert staged.manifest["spec"]["template"]["metadata"]["annotations"][RESTART_AT] == FIRST


def test_a_pod_without_marks_is_taken_over() -> None:
    running = stateful_set()
    del running["spec"]["template"]["metadata"]["annotations"][USER_HASH]

    assert stage(running, stateful_set()).change is Change.USER
