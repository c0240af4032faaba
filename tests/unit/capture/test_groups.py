"""What a group's coordinator describes, as `partage groups` has it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from partage import Cluster
from partage.capture.groups import LiveGroup, LiveMember, _classic_group
from partage.commands.live_groups import measure_live_group
from partage.groups.failover import Priorities, write_priorities
from partage.wire.consumer_protocol import encode_assignment, encode_subscription
from partage.wire.faust import FaustMetadata, write_faust_subscription


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
    response = SimpleNamespace(
        error_code=0, group_id="g", group_state="Stable", protocol_data="range", members=members
    )
    found = _classic_group(response, 1)
    assert {m.id: m.owned for m in found.members} == {
        "good": (("t", 0),),
        "junk": (("t", 1),),
        "while it rebalances": (("t", 2),),
    }
    assert "junk sent what cannot be read" in found.trouble


@pytest.mark.parametrize("strategy", ["failover", "faust"])
def test_other_strategies_do_not_read_the_groups_user_data(strategy) -> None:
    """`partage groups` gives sticky what its own members would send: two moves, none avoidable."""
    sent = [write_priorities(Priorities(10)), write_priorities(Priorities(20))]
    if strategy == "faust":
        sent = [
            write_faust_subscription(FaustMetadata({"t": p}, url=f"http://{p}:1"))
            for p in ([0, 1, 2, 3], [])
        ]
    owned = [tuple(("t", p) for p in range(4)), ()]
    members = tuple(
        LiveMember(f"m{i}", f"m{i}", "/h", None, None, ("t",), owned[i], 7, sent[i]) for i in (0, 1)
    )
    group = LiveGroup("g", "classic", "Stable", strategy, "1", members)
    look = measure_live_group(group, {}, {}, Cluster.from_topics({"t": 4}), None, compare=True)
    for name in ("sticky", "cooperative-sticky"):
        row = look.compared[name]
        assert (row.measures.moved, row.measures.avoidable, row.warnings) == (2, 0, ()), name
    own = look.compared[strategy]
    assert not any("bytes" in one or "no user data" in one for one in own.warnings)
