"""Whatever things are called: what is rendered keeps to the limits of Kubernetes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from desired_cases import NEXT_RELEASE, RELEASE, broker_of, children_of, user_of
from iggy_operator import API_VERSION
from iggy_operator.desired.metadata import Manifest, Owner
from iggy_operator.desired.secrets import token_secret
from iggy_operator.launchers.children import connector_children
from iggy_operator.launchers.choice import Launcher
from iggy_operator.resources import Key
from launcher_cases import job_of, sink_of

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_NAME = re.compile(rf"({SUBDOMAIN.pattern}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Names without empty parts: others the API server refuses, whatever our schema says.
PART = r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?"
SINK, BROKER, USER = sink_of(), broker_of(), user_of()
NAMES = st.from_regex(rf"{PART}(\.{PART}){{0,2}}", fullmatch=True)
SERVICE_LIKE = ("Service", "StatefulSet", "Job", "SparkApplication")


def named(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every `labels` and `matchLabels` anywhere in a manifest."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in ("labels", "matchLabels"):
                yield item
            yield from named(item)
    elif isinstance(value, list):
        for item in value:
            yield from named(item)


def assert_fits(manifest: Manifest) -> None:
    name = manifest["metadata"]["name"]
    pattern = LABEL if manifest["kind"] in SERVICE_LIKE else SUBDOMAIN
    assert len(name) <= 63
    assert pattern.fullmatch(name), name
    for labels in named(manifest):
        for label, value in labels.items():
            assert LABEL_NAME.fullmatch(label)
            assert len(value) <= 63
            assert LABEL_VALUE.fullmatch(value), value


@given(name=NAMES, uid=st.uuids(), launcher=st.sampled_from(get_args(Launcher)))
@settings(deadline=None, max_examples=60)
def test_children_of_a_sink_fit(name: str, uid: Any, launcher: Launcher) -> None:
    job = job_of(replace(SINK, key=Key("shop", name)), uid=str(uid))
    children = connector_children(job, launcher)

    for child in (children.claim, children.account, children.file, children.application):
        if child is not None:
            assert_fits(child)


@given(name=NAMES.filter(lambda name: len(name) <= 40))
@settings(deadline=None, max_examples=60)
def test_children_of_a_broker_fit_and_are_always_the_same(name: str) -> None:
    broker = replace(BROKER, key=Key("messaging", name))

    now, again, later = (
        children_of(broker, release) for release in (RELEASE, RELEASE, NEXT_RELEASE)
    )

    for child in now.values():
        assert_fits(child)
    assert now == again
    assert [child["metadata"] for child in now.values()] == [
        child["metadata"] for child in later.values()
    ]


@given(name=NAMES, token=st.from_regex(r"[a-z0-9][-a-z0-9]{1,28}[a-z0-9]", fullmatch=True))
@settings(deadline=None, max_examples=60)
def test_secrets_of_tokens_fit(name: str, token: str) -> None:
    owner = Owner(API_VERSION, "IggyUser", name, "uid-1")
    user = replace(USER, key=Key("shop", name))

    assert_fits(token_secret(user, token, owner).manifest)
