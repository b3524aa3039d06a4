"""Names that are made from other names."""

import hashlib
from typing import Final

# Names are used as label values, which have at most this many characters (Kubernetes).
CA_KEY: Final = "ca.crt"
"""Of a Secret: the authority that a broker's certificate is checked by."""
NAME_CHARACTERS_MAX: Final = 63
_HASH_CHARACTERS: Final = 8


def connector_name(topic: str, entry: str, *, topic_uid: str = "") -> str:
    """What the object is called that an entry of a topic's `sinks` or `sources` becomes.

    `topic.entry`. Names of entries hold no dot, so two different pairs never meet. A long topic
    name is cut, and eight characters of its uid (without one, of a hash of its name) keep the
    result unique.
    """
    name = f"{topic}.{entry}"
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    mark = topic_uid.replace("-", "") or hashlib.sha256(topic.encode()).hexdigest()
    suffix = f"-{mark[:_HASH_CHARACTERS]}.{entry}"
    return topic[: NAME_CHARACTERS_MAX - len(suffix)].rstrip("-.") + suffix
