"""Names that are made from other names."""

import hashlib
from typing import Final

# Names are used as label values, which have at most this many characters (Kubernetes).
NAME_CHARACTERS_MAX: Final = 63
_HASH_CHARACTERS: Final = 8


def sink_name(topic: str, sink: str, *, topic_uid: str = "") -> str:
    """The name of the IggySink that an entry of a topic's `sinks` becomes: `topic.sink`.

    Sink names hold no dot, so two different pairs never meet. A long topic name is cut, and eight
    characters of its uid (without one, of a hash of its name) keep the result unique.
    """
    name = f"{topic}.{sink}"
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    mark = topic_uid.replace("-", "") or hashlib.sha256(topic.encode()).hexdigest()
    suffix = f"-{mark[:_HASH_CHARACTERS]}.{sink}"
    return topic[: NAME_CHARACTERS_MAX - len(suffix)].rstrip("-.") + suffix
