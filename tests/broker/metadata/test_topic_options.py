"""The option catalogue as tables: what is accepted, what is refused, what is then in force."""

from __future__ import annotations

import pytest

from iggy_broker import config
from iggy_broker.config_values import UNLIMITED
from iggy_broker.errors import Deny
from iggy_broker.metadata import options
from iggy_broker.metadata.model import Defaults, Topic
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Option, Options, ValueKind, make_options, options_bytes

NODE = options.node_settings(config.load(None, {}).config)
MIB = 1 << 20


def node(**environ: str) -> options.TopicSettings:
    variables = {f"IGGY_SYSTEM_{name.upper()}": value for name, value in environ.items()}
    return options.node_settings(config.load(None, variables).config)


def u64(key: str, value: int) -> Option:
    return Option(key, ValueKind.UINT64, value.to_bytes(8, "little"))


def string(key: str, value: str) -> Option:
    return Option(key, ValueKind.STRING, value.encode())


def create(*given: Option, partitions_count: int = 1) -> Options:
    return options.check_create(given, NODE, partitions_count=partitions_count)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        (u64("message_expiry", 60_000_000), "message_expiry_us", 60_000_000),
        (u64("message_expiry", UNLIMITED), "message_expiry_us", UNLIMITED),
        (string("message_expiry", "1 h"), "message_expiry_us", 3_600_000_000),
        (string("message_expiry", "7 days"), "message_expiry_us", 7 * 86_400_000_000),
        (string("message_expiry", "never_expire"), "message_expiry_us", UNLIMITED),
        (u64("max_topic_size", 1 << 31), "max_topic_size_bytes", 1 << 31),
        (u64("max_topic_size", UNLIMITED), "max_topic_size_bytes", UNLIMITED),
        (string("max_topic_size", "10 GiB"), "max_topic_size_bytes", 10 << 30),
        (string("max_topic_size", "unlimited"), "max_topic_size_bytes", UNLIMITED),
        (u64("segment_size", MIB), "segment_size_bytes", MIB),
        (string("segment_size", "1048576"), "segment_size_bytes", MIB),
        (string("segment_size", "128 MiB"), "segment_size_bytes", 128 * MIB),
        (string("compression_algorithm", "gzip"), "compression_algorithm", "gzip"),
        (string("durability", "PERSISTED"), "durability", "persisted"),
        (string("consumer_offset_durability", "replicated"), "consumer_offset_durability",
         "replicated"),
        (Option("enforce_fsync", ValueKind.BOOL, b"\x01"), "enforce_fsync", True),
        (string("enforce_fsync", "true"), "enforce_fsync", True),
        (Option("messages_required_to_save", ValueKind.UINT32, b"\x01\0\0\0"),
         "messages_required_to_save", 1),
        (string("messages_required_to_save", "32"), "messages_required_to_save", 32),
        (u64("size_of_messages_required_to_save", 4096),
         "size_of_messages_required_to_save_bytes", 4096),
        (u64("size_of_messages_required_to_save", 0),
         "size_of_messages_required_to_save_bytes", MIB),
        (Option("preallocate_segments", ValueKind.BOOL, b"\x01"), "preallocate_segments", True),
    ],
)  # fmt: skip
def test_a_legal_option_is_kept_in_the_kind_of_its_key_and_in_force(
    given: Option, field: str, value: object
) -> None:
    kept = create(given)

    (known,) = (known for known in options.CATALOGUE if known.key == given.key)
    assert [(option.key, option.kind) for option in kept] == [(known.key, known.kind)]
    if given.kind == known.kind != ValueKind.STRING:
        assert kept == (given,)
    assert getattr(options.settings_of(kept, NODE), field) == value


def test_text_for_a_number_is_reported_as_the_number() -> None:
    sizes = make_options({"segment_size": "128 MiB", "message_expiry": "1 h"})
    words = make_options({"durability": "PERSISTED", "enforce_fsync": "true"})

    reported = {option.key: option.get() for option in create(*sizes, *words)}

    assert reported == {
        "segment_size": 128 * MIB,
        "message_expiry": 3_600_000_000,
        "durability": "persisted",
        "enforce_fsync": True,
    }


@pytest.mark.parametrize("key", ["message_expiry", "max_topic_size"])
@pytest.mark.parametrize("zero", ["number", "0", "server_default"])
def test_zero_is_as_if_absent(key: str, zero: str) -> None:
    given = u64(key, 0) if zero == "number" else string(key, zero)

    assert create(given) == ()
    assert options.check_update((given,), (), NODE) == ()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (string("retention", "1 h"), ErrorCode.UNSUPPORTED_OPTION_KEY),
        (string("name", "x"), ErrorCode.UNSUPPORTED_OPTION_KEY),
        (string("partition_resize_policy", "fixed"), ErrorCode.UNSUPPORTED_OPTION_KEY),
        (Option("message_expiry", ValueKind.UINT32, bytes(4)), ErrorCode.INVALID_OPTION_VALUE),
        (Option("message_expiry", ValueKind.UINT64, bytes(4)), ErrorCode.INVALID_OPTION_VALUE),
        (string("message_expiry", "60"), ErrorCode.INVALID_OPTION_VALUE),
        (string("message_expiry", "soon"), ErrorCode.INVALID_OPTION_VALUE),
        (Option("message_expiry", ValueKind.STRING, b"\xff"), ErrorCode.INVALID_OPTION_VALUE),
        (string("compression_algorithm", "zstd"), ErrorCode.INVALID_OPTION_VALUE),
        (u64("compression_algorithm", 1), ErrorCode.INVALID_OPTION_VALUE),
        (string("durability", "sometimes"), ErrorCode.INVALID_OPTION_VALUE),
        (string("durability", ""), ErrorCode.INVALID_OPTION_VALUE),
        (u64("segment_size", 0), ErrorCode.INVALID_OPTION_VALUE),
        (u64("segment_size", MIB - 512), ErrorCode.INVALID_OPTION_VALUE),
        (u64("segment_size", MIB + 1), ErrorCode.INVALID_OPTION_VALUE),
        (u64("segment_size", (1 << 30) + 512), ErrorCode.INVALID_OPTION_VALUE),
        (Option("messages_required_to_save", ValueKind.UINT32, bytes(4)),
         ErrorCode.INVALID_OPTION_VALUE),
        (string("messages_required_to_save", "16777217"), ErrorCode.INVALID_OPTION_VALUE),
        (u64("size_of_messages_required_to_save", (1 << 30) + 1), ErrorCode.INVALID_OPTION_VALUE),
        (Option("enforce_fsync", ValueKind.BOOL, b"\x02"), ErrorCode.INVALID_OPTION_VALUE),
        (u64("max_topic_size", (1 << 30) - 1), ErrorCode.INVALID_TOPIC_SIZE),
        (string("max_topic_size", "1 MB"), ErrorCode.INVALID_TOPIC_SIZE),
    ],
)  # fmt: skip
def test_an_illegal_option_is_denied_by_name(given: Option, code: ErrorCode) -> None:
    with pytest.raises(Deny) as caught:
        create(given)

    assert caught.value.code is code
    assert given.key in caught.value.detail


def test_the_size_limit_is_measured_against_the_topics_own_segment() -> None:
    given = (u64("max_topic_size", MIB), u64("segment_size", MIB))

    assert create(*given) == tuple(sorted(given, key=lambda option: option.key))
    with pytest.raises(Deny, match="max_topic_size"):
        options.check_update((u64("max_topic_size", MIB),), (), NODE)
    small = (u64("segment_size", MIB),)
    assert options.check_update((u64("max_topic_size", MIB),), small, NODE)


@pytest.mark.parametrize("known", options.CATALOGUE, ids=lambda known: known.key)
def test_only_three_keys_may_change_later(known: options.Known) -> None:
    default = next(o for o in options.derived((), NODE) if o.key == known.key)
    updatable = known.key in ("compression_algorithm", "message_expiry", "max_topic_size")

    if updatable:
        assert options.check_update((default,), (), NODE) == (default,)
    else:
        with pytest.raises(Deny) as caught:
            options.check_update((default,), (), NODE)
        assert caught.value.code is ErrorCode.UNSUPPORTED_OPTION_KEY


def test_preallocating_more_than_64_gib_is_denied() -> None:
    given = Option("preallocate_segments", ValueKind.BOOL, b"\x01")

    assert create(given, partitions_count=64) == (given,)
    with pytest.raises(Deny, match="preallocate_segments"):
        create(given, partitions_count=65)


def test_explicit_and_derived_options_are_the_whole_catalogue() -> None:
    explicit = make_options({"durability": "persisted", "segment_size": "1 MiB"})
    settings = options.settings_of(explicit, NODE)

    derived = options.derived(explicit, settings)

    keys = {option.key for option in (*explicit, *derived)}
    assert keys == {known.key for known in options.CATALOGUE}
    assert len(explicit) + len(derived) == len(options.CATALOGUE)
    assert options_bytes(derived)
    values = {option.key: option.get() for option in derived}
    assert values["message_expiry"] == UNLIMITED
    assert values["consumer_offset_durability"] == "replicated"
    # What is derived could have been sent: it means the same.
    assert options.settings_of(create(*derived), NODE) == NODE


def test_the_defaults_that_nobody_set() -> None:
    assert not NODE.persisted
    assert not NODE.offsets_persisted
    assert (NODE.sync_messages, NODE.sync_bytes) == (None, None)
    assert NODE.segment_size_bytes == 1 << 30
    assert NODE.message_expiry_us == NODE.max_topic_size_bytes == UNLIMITED


def test_levels_of_durability_by_node_keys() -> None:
    maximum = node(partition_enforce_fsync="true", partition_messages_required_to_save="1")
    high = node(partition_enforce_fsync="true", partition_messages_required_to_save="100")

    assert maximum.persisted
    assert not high.persisted
    assert (high.sync_messages, high.sync_bytes) == (100, MIB)
    assert high.offsets_persisted
    derived = {option.key: option.get() for option in options.derived((), maximum)}
    assert derived["durability"] == derived["consumer_offset_durability"] == "persisted"


def test_a_topic_that_names_a_number_is_synced_behind_so_many() -> None:
    enforced = node(partition_enforce_fsync="true")

    def behind(options_: options.Options, of: options.TopicSettings = NODE) -> int | None:
        topic = Topic(id=0, name="t", created_at_us=1, options=options_)
        return options.save_messages(topic, options.settings_of(options_, of))

    asked = make_options({"messages_required_to_save": 100})
    assert behind(()) is None, "a node's number is for enforce_fsync"
    assert behind(asked) == 100
    assert behind(asked, enforced) is None, "its sends wait"
    assert behind(make_options({"messages_required_to_save": 5, "durability": "persisted"})) is None


def test_the_safer_of_two_wishes_wins() -> None:
    # The 0.9.0 clients always send `replicated`; a node that enforces syncs must still do so.
    sent = make_options({"durability": "replicated", "consumer_offset_durability": "replicated"})
    enforced = node(partition_enforce_fsync="true", partition_messages_required_to_save="1")

    assert options.settings_of(sent, enforced).persisted
    assert options.settings_of(make_options({"enforce_fsync": False}), enforced).persisted
    assert options.settings_of(make_options({"durability": "persisted"}), NODE).persisted


def test_what_was_not_sent_follows_the_node_but_for_what_is_frozen() -> None:
    changed = node(segment_message_expiry="1 h", topic_max_size="5 GiB", segment_size="2 MiB")
    made = options.defaults_of(NODE)

    bare = options.settings_of((), changed, made)
    sent = options.settings_of(make_options({"message_expiry": "3 h"}), changed, made)

    assert bare.segment_size_bytes == 2 * MIB
    assert bare.message_expiry_us == bare.max_topic_size_bytes == UNLIMITED
    assert (sent.message_expiry_us, sent.max_topic_size_bytes) == (3 * 3_600_000_000, UNLIMITED)
    assert options.defaults_of(changed) == Defaults(3_600_000_000, 5 << 30)


def test_streams_have_no_options() -> None:
    options.refuse_any((), "stream")
    with pytest.raises(Deny, match="a stream has no options"):
        options.refuse_any((u64("segment_size", MIB),), "stream")
