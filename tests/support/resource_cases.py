"""Documents that must be accepted or refused: by the local check, and by a real API server.

A case with `old` is an update of that object. `path` and `words` tell where the refusal points and
what it says. One table for both, so that what works on a laptop works in a cluster.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iggy_operator import API_VERSION
from iggy_operator.schema import schemas
from schema_samples import whole
from sink_blocks import BUCKET, DATABASE, TARGETS


@dataclass(frozen=True)
class Case:
    """One document; refused at `path` with `words` in the message, accepted without a path."""

    name: str
    value: Mapping[str, Any]
    old: Mapping[str, Any] | None = None
    path: str = ""
    words: str = ""

    @property
    def is_accepted(self) -> bool:
        return not self.path


def document(kind: str, spec: Mapping[str, Any], *, name: str = "orders") -> dict[str, Any]:
    """A whole document around a spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": copy.deepcopy(dict(spec)),
    }


def broker(**spec: Any) -> dict[str, Any]:
    return document("IggyBroker", spec, name="main")


def stream(**spec: Any) -> dict[str, Any]:
    return document("IggyStream", spec, name="shop")


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return document("IggyTopic", {"streamRef": {"name": "shop"}} | spec, name=name)


def user(name: str = "fraud", **spec: Any) -> dict[str, Any]:
    return document("IggyUser", spec, name=name)


LAKE: dict[str, Any] = {
    "name": "lake",
    "type": "Files",
    "files": {"path": "lake/orders"},
    "checkpoint": {"volume": {}},
}


def with_sink(**fields: Any) -> dict[str, Any]:
    """A topic with one sink: LAKE with some fields replaced, or removed by None."""
    sink = {name: value for name, value in (LAKE | fields).items() if value is not None}
    return topic(sinks=[sink])


def sink(**fields: Any) -> dict[str, Any]:
    """An IggySink, LAKE with some fields replaced, or removed by None."""
    spec = {"topicRef": {"name": "orders"}, **{k: v for k, v in LAKE.items() if k != "name"}}
    spec = {name: value for name, value in (spec | fields).items() if value is not None}
    return document("IggySink", spec, name="orders.lake")


def full_topic(name: str = "full") -> dict[str, Any]:
    """A topic with sixteen sinks, each with every field that a Files sink may have."""
    properties = schemas()["IggySink"].root["properties"]["spec"]["properties"]
    others = {kind.lower() for kind in properties["type"]["enum"]} - {"files"}
    fields = {k: v for k, v in properties.items() if k not in {*others, "topicRef"}}
    entry = whole({"type": "object", "properties": fields})
    entry["files"]["path"] = "s3a://lake/orders"
    entry["checkpoint"] = S3 | {"s3": entry["files"]["s3"]}
    entry["errors"]["tolerance"] = "Data"
    entry["transforms"] = [{"flatten": {}}, {"delete_fields": {"fields": ["password"]}}]
    return topic(name, sinks=[{**entry, "name": f"sink-{index}"} for index in range(16)])


S3 = {"location": "s3a://lake/_ckpt/orders"}
EXTERNAL = {
    "tcp": "iggy.example:8090",
    "http": "https://iggy.example:3000",
    "credentialsSecretName": "legacy-root",
}

_TOPICS = [
    Case("topic: everything by default", topic()),
    Case("topic: fewer partitions", topic(partitions=3), topic(partitions=6),
         "spec.partitions", "set partitionDecreasePolicy to DeleteData"),
    Case("topic: more partitions", topic(partitions=8), topic(partitions=6)),
    Case("topic: fewer partitions, wanted",
         topic(partitions=3, partitionDecreasePolicy="DeleteData"), topic(partitions=8)),
    Case("topic: no partitions", topic(partitions=0), None, "spec.partitions", "at least 1"),
    Case("topic: partitions as text", topic(partitions="6"), None, "spec.partitions",
         "must be a whole number, is '6'"),
    Case("topic: partitions true", topic(partitions=True), None, "spec.partitions", "whole number"),
    Case("topic: rename", topic(topicName="other"), topic(), "<root>", "old topicName back"),
    Case("topic: a name of any letters", topic(topicName="__Orders.V1_ünï")),
    Case("topic: a name of 255 bytes", topic(topicName="ü" * 127 + "x")),
    Case("topic: a name of 256 bytes", topic(topicName="ü" * 128), None, "spec.topicName",
         "at most 255 bytes"),
    Case("topic: a name of 256 letters", topic(topicName="x" * 256), None, "spec.topicName",
         "255"),
    Case("topic: a group's name of 256 bytes", topic(consumerGroups=[{"name": "ü" * 128}]), None,
         "spec.consumerGroups[0].name", "at most 255 bytes"),
    Case("topic: the default name written out", topic(topicName="orders"), topic()),
    Case("topic: other stream", topic(streamRef={"name": "other"}), topic(), "spec.streamRef",
         "streamRef cannot change"),
    Case("topic: no stream", document("IggyTopic", {}), None, "spec.streamRef", "is missing"),
    Case("topic: other durability", topic(durability={"profile": "Strict"}), topic(),
         "spec.durability", "fixed when the topic is created"),
    Case("topic: a knob without Custom", topic(durability={"flushMessages": 5}), None,
         "spec.durability", "only with profile Custom"),
    Case("topic: a knob with Custom", topic(durability={"profile": "Custom", "flushMessages": 5})),
    Case("topic: other segments", topic(segment={"size": "64Mi"}), topic(), "spec.segment",
         "fixed when the topic is created"),
    Case("topic: segment too small", topic(segment={"size": "3000"}), None, "spec.segment",
         "from 1Mi to 1Gi"),
    Case("topic: segment not in blocks", topic(segment={"size": "10000001"}), None,
         "spec.segment", "multiple of 512"),
    Case("topic: segment in blocks", topic(segment={"size": "64Mi"})),
    Case("topic: too much preallocated", topic(segment={"preallocate": True}, partitions=100),
         None, "spec", "at most 64Gi"),
    Case("topic: expiry in words", topic(retention={"messageExpiry": "7 days"}), None,
         "spec.retention.messageExpiry", "such as 7d"),
    Case("topic: a trailing line break", topic(retention={"messageExpiry": "7d\n"}), None,
         "spec.retention.messageExpiry", "such as 7d"),
    Case("topic: size in words", topic(retention={"maxSize": "lots"}), None,
         "spec.retention.maxSize", "unlimited or a quantity"),
    Case("topic: no size at all", topic(retention={"maxSize": "0"}), None,
         "spec.retention.maxSize", "above zero"),
    Case("topic: new expiry", topic(retention={"messageExpiry": "1h30m"}), topic()),
    Case("topic: DeleteIfEmpty", topic(deletionPolicy="DeleteIfEmpty"), topic()),
    Case("topic: unknown field", topic(partitons=3), None, "spec.partitons",
         "did you mean partitions?"),
    Case("topic: wrong case of a value", topic(deletionPolicy="retain"), None,
         "spec.deletionPolicy", "did you mean Retain?"),
    Case("topic: long name", topic("o" * 64), None, "<root>", "at most 63 characters"),
    Case("topic: two groups of one name", topic(consumerGroups=[{"name": "a"}, {"name": "a"}]),
         None, "spec.consumerGroups[1]", "same as entry 0"),
    Case("topic: null counts as left out", topic(partitions=None)),
]  # fmt: skip

_SINKS = [
    Case("sink: files into a claim", with_sink()),
    Case("sink: files into a bucket", with_sink(files=BUCKET)),
    Case("sink: a store for a folder", with_sink(files={**BUCKET, "path": "/lake"}), None,
         "spec.sinks[0].files", "s3 goes with a path in an object store"),
    Case("sink: a login in the store's address",
         with_sink(files={**BUCKET, "s3": {"endpoint": "http://a:b@store:8333"}}), None,
         "spec.sinks[0].files.s3.endpoint", "without login"),
    Case("sink: two of one name", topic(sinks=[LAKE, LAKE]), None, "spec.sinks[1]", "same as"),
    Case("sink: type without its block", with_sink(files=None), None, "spec.sinks[0]",
         "files must be set"),
    Case("sink: a block without its type", with_sink(iggy={"stream": "s", "topic": "t"}), None,
         "spec.sinks[0]", "iggy must be set if, and only if, type is Iggy"),
    Case("sink: no checkpoint", with_sink(checkpoint=None), None, "spec.sinks[0]",
         "set checkpoint.volume"),
    Case("sink: console without checkpoint",
         with_sink(type="Console", files=None, checkpoint=None)),
    Case("sink: checkpoint in an object store, otherwise written",
         with_sink(checkpoint={"location": "s3://lake/_ckpt/orders"})),
    Case("sink: checkpoint in a store that is none of ours",
         with_sink(checkpoint={"location": "abfss://lake@a/x"}), None,
         "spec.sinks[0].checkpoint", "must be in an object store"),
    Case("sink: checkpoint on a local path", with_sink(checkpoint={"location": "/tmp/x"}), None,
         "spec.sinks[0].checkpoint", "for a local folder use volume"),
    Case("sink: both kinds of checkpoint", with_sink(checkpoint=S3 | {"volume": {}}), None,
         "spec.sinks[0].checkpoint", "exactly one"),
    Case("sink: checkpoint in a store", with_sink(checkpoint=S3 | {"s3": BUCKET["s3"]})),
    Case("sink: checkpoint's store without a location",
         with_sink(checkpoint={"volume": {}, "s3": BUCKET["s3"]}), None,
         "spec.sinks[0].checkpoint", "s3 goes with a location in an object store"),
    Case("sink: checkpoint's store with a password",
         with_sink(checkpoint=S3 | {"s3": {"endpoint": "http://a:b@store:8333"}}), None,
         "spec.sinks[0].checkpoint.s3.endpoint", "without login"),
    Case("sink: another way to the checkpoint's store",
         with_sink(checkpoint=S3 | {"s3": BUCKET["s3"]}), with_sink(checkpoint=S3)),
    Case("sink: moved checkpoint", with_sink(checkpoint={"location": "s3a://lake/other"}),
         with_sink(checkpoint=S3), "spec.sinks[0].checkpoint", "use a new sink name"),
    Case("sink: a second sink, another checkpoint",
         topic(sinks=[LAKE | {"name": "new", "checkpoint": S3}, LAKE]), with_sink()),
    Case("sink: reserved Spark property",
         with_sink(spark={"conf": {"spark.sql.streaming.checkpointLocation": "/x"}}), None,
         "spec.sinks[0].spark.conf", "set by the operator"),
    Case("sink: other type", with_sink(type="Console", files=None), with_sink(),
         "spec.sinks[0].type", "cannot change"),
    Case("sink: no executors with Kubeflow",
         with_sink(spark={"launcher": "Kubeflow", "executor": {"instances": 0}}), None,
         "spec.sinks[0].spark", "needs launcher Native"),
    Case("sink: no executors with Native",
         with_sink(spark={"launcher": "Native", "executor": {"instances": 0}})),
    Case("sink: unknown type", with_sink(type="File"), None, "spec.sinks[0].type",
         "did you mean Files?"),
    Case("sink: dotted name", with_sink(name="a.b"), None, "spec.sinks[0].name", "dashes"),
    Case("sink: upsert without keys",
         with_sink(type="Jdbc", files=None, jdbc={"url": "jdbc:postgresql://h/d", "table": "t",
                                                  "mode": "Upsert"}), None,
         "spec.sinks[0].jdbc", "keyColumns"),
    Case("sink: credentials in an address",
         with_sink(type="Mongo", files=None, mongo={"url": "mongodb://u:p@h", "database": "d",
                                                    "collection": "c"}), None,
         "spec.sinks[0].mongo.url", "without credentials"),
    Case("sink: exactly once into files", with_sink(delivery="ExactlyOnce")),
    Case("sink: exactly once over http",
         with_sink(type="Http", files=None, http={"url": "https://x.example"},
                   delivery="ExactlyOnce"), None, "spec.sinks[0]", "cannot deliver exactly once"),
    Case("sink: exactly once into a search index",
         with_sink(type="Elasticsearch", files=None, delivery="ExactlyOnce",
                   elasticsearch={"urls": ["https://es:9200"], "index": "orders"})),
    Case("sink: exactly once with ids from a field",
         with_sink(type="Elasticsearch", files=None, delivery="ExactlyOnce",
                   elasticsearch={"urls": ["https://es:9200"], "index": "orders",
                                  "idFrom": "Field", "idField": "id"}), None,
         "spec.sinks[0]", "idFrom Offset"),
    Case("sink: tolerance without dead letters",
         with_sink(**DATABASE, errors={"tolerance": "Data"}), None,
         "spec.sinks[0]", "needs errors.deadLetter"),
    Case("sink: dead letters without tolerance",
         with_sink(errors={"deadLetter": {"topic": "orders.dlq"}}), None,
         "spec.sinks[0].errors", "deadLetter goes with tolerance Data"),
    Case("sink: tokens without a secret",
         sink(type="Http", files=None,
              http={"url": "https://x.example", "oauth2": {"tokenUrl": "https://id.example"}}),
         None, "spec.http", "oauth2 needs credentialsSecretName"),
    Case("sink: files keep bad messages", with_sink(errors={"tolerance": "Data"})),
    Case("sink: messages that are gone", with_sink(failOnDataLoss=False)),
    *[
        Case(f"sink: {kind} with everything", sink(type=kind, files=None, **{kind.lower(): block}))
        for kind, block in TARGETS.items()
    ],
    Case("sink: a store for a table in a folder",
         sink(type="Delta", files=None, delta={"path": "/lake", "s3": BUCKET["s3"]}), None,
         "spec.delta", "s3 goes with a path in an object store"),
    Case("sink: a login in a web address",
         sink(type="Http", files=None, http={"url": "https://a:b@x.example"}), None,
         "spec.http.url", "without credentials"),
    Case("sink: tokens from nowhere",
         sink(type="Http", files=None, http={"url": "https://x.example", "oauth2": {}}), None,
         "spec.http.oauth2.tokenUrl", "is missing"),
    Case("sink: tolerance with dead letters",
         with_sink(errors={"tolerance": "Data", "deadLetter": {"topic": "orders.dlq"}})),
    Case("sink: transforms", with_sink(transforms=[
        {"add_fields": {"fields": [{"key": "at", "value": {"computed": "offset"}}]}},
        {"delete_fields": {"fields": ["password"]}}])),
    Case("sink: unknown transform", with_sink(transforms=[{"drop_fields": {}}]), None,
         "spec.sinks[0].transforms[0].drop_fields", "did you mean"),
    Case("sink: two transforms in one entry",
         with_sink(transforms=[{"flatten": {}, "cast_fields": {}}]), None,
         "spec.sinks[0].transforms[0]", "at most 1 key"),
    *[
        Case(f"sink: {kind} without its block", with_sink(type=kind, files=None), None,
             "spec.sinks[0]", f"{kind.lower()} must be set if, and only if")
        for kind in ("Iceberg", "Delta", "Jdbc", "Elasticsearch", "Quickwit", "ClickHouse",
                     "Mongo", "Http", "Iggy", "Custom")
    ],
    Case("sink: ids from a field that is not named",
         with_sink(type="Elasticsearch", files=None,
                   elasticsearch={"urls": ["https://es:9200"], "index": "o",
                                  "idFrom": "Field"}), None,
         "spec.sinks[0].elasticsearch", "name the field"),
    Case("sink: a database without jdbc",
         with_sink(type="Jdbc", files=None, jdbc={"url": "postgresql://pg/x", "table": "t"}), None,
         "spec.sinks[0].jdbc.url", "jdbc:postgresql:"),
    Case("sink: a database that is not PostgreSQL",
         with_sink(type="Jdbc", files=None, jdbc={"url": "jdbc:mysql://h/d", "table": "t"}), None,
         "spec.sinks[0].jdbc.url", "jdbc:postgresql:"),
    Case("sink: copies are at least once",
         with_sink(type="Iggy", files=None, delivery="ExactlyOnce",
                   iggy={"stream": "archive", "topic": "orders"}), None, "spec.sinks[0]",
         "cannot deliver exactly once"),
    Case("sink: an interval without unit", with_sink(trigger={"interval": "10"}), None,
         "spec.sinks[0].trigger.interval", "such as"),
    Case("sink: a version in words", with_sink(spark={"version": "latest"}), None,
         "spec.sinks[0].spark.version", "such as 4.3.0"),
    Case("sink: memory in Kubernetes' units", with_sink(spark={"driver": {"memory": "1Gi"}}), None,
         "spec.sinks[0].spark.driver.memory", "such as 512m"),
    Case("sink: sixteen sinks with every field", full_topic()),
    Case("sink: seventeen sinks",
         topic(sinks=[LAKE | {"name": f"s{index}"} for index in range(17)]), None, "spec.sinks",
         "at most 16"),
    Case("sink object: accepted", sink()),
    Case("sink object: other topic", sink(topicRef={"name": "other"}), sink(), "spec.topicRef",
         "cannot change"),
]  # fmt: skip

_OUTSIDE = {"serviceType": "LoadBalancer", "loadBalancerClass": "example/public"}
_BROKERS = [
    Case("broker: a load balancer with everything", broker(listeners={
        **_OUTSIDE, "nodePort": 31000, "externalTrafficPolicy": "Local",
        "loadBalancerIP": "192.0.2.7", "sourceRanges": ["203.0.113.0/24", "2001:db8::/32"],
        "advertisedAddress": "iggy.example:8090"})),
    Case("broker: a node port without its type", broker(listeners={"nodePort": 31000}), None,
         "spec.listeners", "set serviceType to NodePort or LoadBalancer"),
    Case("broker: networks for clients inside",
         broker(listeners={"sourceRanges": ["203.0.113.0/24"]}), None, "spec.listeners",
         "set serviceType to NodePort or LoadBalancer"),
    Case("broker: a class without a load balancer",
         broker(listeners={"serviceType": "NodePort", "loadBalancerClass": "x"}), None,
         "spec.listeners", "set serviceType to LoadBalancer"),
    Case("broker: another load balancer",
         broker(listeners={**_OUTSIDE, "loadBalancerClass": "example/other"}),
         broker(listeners=_OUTSIDE), "spec.listeners", "set serviceType to ClusterIP first"),
    Case("broker: no load balancer any more", broker(), broker(listeners=_OUTSIDE)),
    Case("broker: a network that is none",
         broker(listeners={"serviceType": "NodePort", "sourceRanges": ["all"]}), None,
         "spec.listeners.sourceRanges[0]", "at least 4 characters"),
    Case("broker: an address with a path", broker(listeners={"advertisedAddress": "a/b"}), None,
         "spec.listeners.advertisedAddress", "such as iggy.example:8090"),
    Case("broker: an external one by TLS",
         broker(mode="External", external=EXTERNAL | {"tls": {"serverName": "iggy.example"}})),
    Case("broker: everything by default", broker()),
    Case("broker: smaller volume", broker(storage={"size": "5Gi"}), broker(), "spec.storage.size",
         "storage cannot shrink"),
    Case("broker: larger volume", broker(storage={"size": "20Gi"}), broker()),
    Case("broker: a size that the volume never got is taken back", broker(storage={"size": "20Gi"}),
         {**broker(storage={"size": "30Gi"}), "status": {"storage": {"requested": "20Gi"}}}),
    Case("broker: smaller than the volume is", broker(storage={"size": "19Gi"}),
         {**broker(storage={"size": "30Gi"}), "status": {"storage": {"requested": "20Gi"}}},
         "spec.storage.size", "storage cannot shrink"),
    Case("broker: other storage class", broker(storage={"storageClassName": "fast"}), broker(),
         "spec.storage", "storageClassName cannot change"),
    Case("broker: a volume of nothing", broker(storage={"size": "0"}), None, "spec.storage.size",
         "greater than zero"),
    Case("broker: ephemeral later", broker(storage={"ephemeral": True}), broker(), "spec.storage",
         "ephemeral cannot change"),
    Case("broker: other access mode", broker(storage={"accessMode": "ReadWriteOncePod"}), broker(),
         "spec.storage", "accessMode cannot change"),
    Case("broker: an archive volume without kind", broker(archiver={"disk": {}}), None,
         "spec.archiver", "only if kind is Disk"),
    Case("broker: an external one that sleeps",
         broker(mode="External", external=EXTERNAL, hibernate=True), None, "spec",
         "cannot be hibernated"),
    Case("broker: other mode", broker(mode="External", external=EXTERNAL), broker(), "spec.mode",
         "mode cannot change"),
    Case("broker: external", broker(mode="External", external=EXTERNAL)),
    Case("broker: external without block", broker(mode="External"), None, "spec",
         "add the external block"),
    Case("broker: external without scheme",
         broker(mode="External", external=EXTERNAL | {"http": "iggy.example:3000"}), None,
         "spec.external.http", "http or https address"),
    Case("broker: s3 without kind", broker(archiver={"s3": {"bucket": "abc"}}), None,
         "spec.archiver", "only if, kind is S3"),
    Case("broker: equal ports", broker(listeners={"tcpPort": 3000}), None, "spec.listeners",
         "must differ"),
    Case("broker: reserved setting", broker(config={"system.path": "/x"}), None, "spec.config",
         "set by the operator"),
    Case("broker: other setting", broker(config={"system.partition.enforce_fsync": "true"})),
    Case("broker: empty list of namespaces",
         broker(allowedNamespaces={"from": "List", "names": []}), None, "spec.allowedNamespaces",
         "list at least one"),
    Case("broker: size in words", broker(storage={"size": "big"}), None, "spec.storage.size",
         "such as 10Gi"),
    Case("broker: long name", document("IggyBroker", {}, name="b" * 41), None, "<root>",
         "at most 40 characters"),
    Case("broker: any toleration",
         broker(podTemplate={"tolerations": [{"key": "a", "operator": "Exists"}]})),
]  # fmt: skip

_OTHERS = [
    Case("stream: broker left out", stream()),
    Case("stream: broker written out", stream(brokerRef={"name": "iggy"}), stream()),
    Case("stream: other broker", stream(brokerRef={"name": "b"}),
         stream(brokerRef={"name": "a"}), "spec.brokerRef", "cannot change"),
    Case("stream: broker added later", stream(brokerRef={"name": "b"}), stream(),
         "spec.brokerRef", "cannot change"),
    Case("stream: a name of 256 bytes", stream(streamName="ü" * 128), None, "spec.streamName",
         "at most 255 bytes"),
    Case("stream: rename", stream(streamName="other"), stream(), "<root>", "old streamName back"),
    Case("stream: no spec", {k: v for k, v in stream().items() if k != "spec"}),
    Case("user: accepted", user(permissions={"streams": [
        {"stream": "shop", "topics": [{"topic": "o", "allow": ["ReadTopic"]}]}]})),
    Case("user: root", user("iggy"), None, "<root>", "root user"),
    Case("user: two letters", user("ab"), None, "<root>", "3 to 50 characters"),
    Case("user: two letters with a username", user("ab", username="abc")),
    Case("user: a name of 51 bytes", user(username="ü" * 25 + "x"), None, "spec.username",
         "at most 50 bytes"),
    Case("user: rename", user(username="other"), user(), "<root>", "old username back"),
    Case("user: root by its username", user(username="iggy"), None, "<root>", "root user"),
    Case("user: unknown permission", user(permissions={"global": ["ReadEverything"]}), None,
         "spec.permissions.global[0]", "must be one of"),
    Case("user: two rows for one stream",
         user(permissions={"streams": [{"stream": "shop"}, {"stream": "shop"}]}), None,
         "spec.permissions.streams[1]", "same as entry 0"),
    Case("user: a token that lives a while",
         user(accessTokens=[{"name": "dash", "expiry": "90 days"}]), None,
         "spec.accessTokens[0].expiry", "such as"),
    Case("user: the same right twice",
         user(permissions={"global": ["ReadTopics", "ReadTopics"]}), None,
         "spec.permissions.global[1]", "same as entry 0"),
]  # fmt: skip

CASES = [*_TOPICS, *_SINKS, *_BROKERS, *_OTHERS]
