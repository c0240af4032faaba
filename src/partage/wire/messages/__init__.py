"""The layouts themselves, as data: one module for each kind of group.

>>> sorted(KEYS) == [*range(9), *range(10, 18), *range(19, 24)]
True
"""

from __future__ import annotations

from partage.wire.messages import (
    classic_group,
    consumer_group,
    consumer_protocol,
    offset_commit,
    share_group,
    sticky,
    streams_group,
    streams_info,
)
from partage.wire.messages.consumer_group import CONSUMER_GROUP_METADATA_VALUE
from partage.wire.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from partage.wire.messages.sticky import STICKY_ASSIGNOR_USER_DATA
from partage.wire.messages.streams_info import SUBSCRIPTION_INFO_DATA
from partage.wire.schema import Message

__all__ = [
    "CONSUMER_GROUP_METADATA_VALUE",
    "CONSUMER_PROTOCOL_ASSIGNMENT",
    "CONSUMER_PROTOCOL_SUBSCRIPTION",
    "KEYS",
    "MESSAGES",
    "STICKY_ASSIGNOR_USER_DATA",
    "SUBSCRIPTION_INFO_DATA",
    "VALUES",
]

_MODULES = (
    consumer_protocol,
    sticky,
    offset_commit,
    classic_group,
    consumer_group,
    share_group,
    streams_group,
    streams_info,
)

MESSAGES: tuple[Message, ...] = tuple(
    getattr(module, name) for module in _MODULES for name in module.__all__
)
"""Every message that Partage reads and writes."""

KEYS: dict[int, Message] = {
    m.api_key: m for m in MESSAGES if m.kind == "coordinator-key" and m.api_key is not None
}
"""Keys of ``__consumer_offsets`` by record type."""

VALUES: dict[int, Message] = {
    m.api_key: m for m in MESSAGES if m.kind == "coordinator-value" and m.api_key is not None
}
"""Values of ``__consumer_offsets`` by record type."""
