"""What a group's coordinator describes, as `partage groups` has it."""

from __future__ import annotations

from types import SimpleNamespace

from partage.capture.groups import _classic_group
from partage.wire.consumer_protocol import encode_assignment, encode_subscription


def test_who_sends_garbage_is_a_member_all_the_same() -> None:
    """Its subscription cannot be read: it keeps what it was given, and the group says so."""
    rows = [
        ("good", encode_subscription(["t"]), 0),
        ("junk", b"\x00\x03\x7f\xff", 1),
        ("while it rebalances", b"", 2),
    ]
    members = [
        SimpleNamespace(
            member_id=name, client_id=name, client_host="/h", group_instance_id=None,
            member_metadata=said, member_assignment=encode_assignment([("t", p)]),
        ) for name, said, p in rows
    ]  # fmt: skip
    told = SimpleNamespace(
        error_code=0, group_id="g", group_state="Stable", protocol_data="range", members=members
    )
    found = _classic_group(told, 1)
    assert {m.id: m.owned for m in found.members} == {
        "good": (("t", 0),),
        "junk": (("t", 1),),
        "while it rebalances": (("t", 2),),
    }
    assert "junk sent what cannot be read" in found.trouble
