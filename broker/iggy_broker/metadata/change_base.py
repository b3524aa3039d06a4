"""What every change of metadata has in common."""

import msgspec


class Change(msgspec.Struct, frozen=True, tag_field="change", omit_defaults=True):
    """Base of all changes."""
