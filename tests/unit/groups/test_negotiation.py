"""Which strategy a group has, and who is turned away."""

from __future__ import annotations

import pytest

import partage as pg
from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.negotiation import Negotiation, rebalance_protocol
from partage.groups.registry import find

REFUSED = pg.InconsistentGroupProtocolError


def joined(*lists):
    group = Negotiation()
    for number, names in enumerate(lists, 1):
        group = group.join(f"c{number}", names.split())
    return group


def test_most_votes_among_what_all_support() -> None:
    """Each member votes for the first of its list that everybody supports."""
    group = joined("sticky range roundrobin", "range roundrobin", "roundrobin range")
    assert group.candidates() == ("range", "roundrobin")
    assert group.votes() == {"range": 2, "roundrobin": 1}
    assert group.selected == "range"
    assert group.join("c4", ["roundrobin"]).selected == "roundrobin"


def test_a_tie_is_broken_by_javas_hash_order() -> None:
    """With one vote each, the first in the coordinator's map wins, whatever the join order."""
    assert joined("range roundrobin", "roundrobin range").selected == "range"
    assert joined("roundrobin range", "range roundrobin").selected == "range"
    # Two names in one bucket: here the first vote decides.
    assert joined("AaAa BBBB", "BBBB AaAa").selected != joined("BBBB AaAa", "AaAa BBBB").selected


def test_the_first_member_must_bring_something() -> None:
    """An empty list and an empty protocol type are refused, and the group stays empty."""
    empty = Negotiation()
    with pytest.raises(REFUSED, match="no strategy"):
        empty.join("c1", [])
    with pytest.raises(REFUSED, match="empty protocol type"):
        empty.join("c1", ["range"], protocol_type="")
    assert empty == Negotiation()
    assert empty.selected is None


@pytest.mark.parametrize(
    ("names", "protocol_type"),
    [("sticky", "consumer"), ("", "consumer"), ("range", "connect"), ("range", "")],
)
def test_a_member_that_does_not_fit_is_refused_and_the_group_stays(names, protocol_type) -> None:
    """Nothing in common, nothing at all, another or an empty protocol type."""
    group = joined("range roundrobin", "range")
    before = (group.members, group.protocol_type, group.selected)
    with pytest.raises(REFUSED, match="c9"):
        group.join("c9", names.split(), protocol_type=protocol_type)
    assert (group.members, group.protocol_type, group.selected) == before


def test_what_is_in_common_with_one_member_only_is_not_enough() -> None:
    """The newcomer must support something that all members support."""
    with pytest.raises(REFUSED, match="all other members support are range"):
        joined("range sticky", "range").join("c3", ["sticky"])


def rolled(group, *steps):
    """Members restart one after the other: each leaves and joins anew with its new list."""
    for number, names in enumerate(steps, 1):
        group = group.leave(f"c{number}").join(f"c{number}", names.split())
    return group


def test_a_rolling_change_of_strategy_takes_two_rounds() -> None:
    """range, then [sticky, range], then sticky: the group always has a strategy, never a refusal."""
    group = joined("range", "range", "range")
    seen = []
    for names in ["sticky range", "sticky"]:
        for number in (1, 2, 3):
            group = group.leave(f"c{number}").join(f"c{number}", names.split())
            seen.append(group.selected)
    # While one member knows range only, range it is; then sticky is what all prefer.
    assert seen == ["range", "range", "sticky", "sticky", "sticky", "sticky"]


def test_the_skipped_middle_step_fails() -> None:
    """From range straight to sticky: the first member that restarts is refused, the others go on."""
    group = joined("range", "range", "range").leave("c1")
    with pytest.raises(REFUSED, match=r"^c1 cannot join .* it supports sticky, and"):
        group.join("c1", ["sticky"])
    assert [name for name, _ in group.members] == ["c2", "c3"]
    assert group.selected == "range"
    assert rolled(joined("range"), "sticky").selected == "sticky", "alone it may change at will"


def test_a_member_that_joins_again_is_judged_with_what_it_had() -> None:
    """Even alone it cannot drop everything it had without leaving: so says the coordinator."""
    group = joined("range")
    with pytest.raises(REFUSED):
        group.join("c1", ["sticky"])
    assert group.join("c1", ["sticky", "range"]).selected == "sticky"


def test_an_empty_group_takes_another_protocol_type() -> None:
    """When the last member has left, the next one may be of another kind."""
    group = joined("range").leave("c1")
    assert group.join("w1", ["default"], protocol_type="connect").protocol_type == "connect"


class Cooperative(PlainStrategy):
    """Speaks both."""

    name = "both"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, problem, memory=None):
        raise NotImplementedError


class OnlyCooperative(Cooperative):
    """Speaks one."""

    name = "only"
    protocols = (RebalanceProtocol.COOPERATIVE,)


def test_the_rebalance_protocol_is_the_highest_that_all_support() -> None:
    """Kafka's default list, range before cooperative-sticky, therefore speaks EAGER."""
    range_ = find("range")
    assert rebalance_protocol([range_, find("cooperative-sticky")]) is RebalanceProtocol.EAGER
    assert rebalance_protocol([range_, Cooperative()]) is RebalanceProtocol.EAGER
    assert rebalance_protocol([Cooperative()]) is RebalanceProtocol.COOPERATIVE
    with pytest.raises(pg.InvalidConfigError, match="no rebalance protocol in common"):
        rebalance_protocol([range_, OnlyCooperative()])
    with pytest.raises(pg.InvalidConfigError):
        rebalance_protocol([])


def test_a_member_who_leaves_a_tree_of_the_coordinators_map() -> None:
    """Eleven ids of one bucket, then ten: the first vote counted is the one that Kafka counts."""
    supported = {
        "consumer.103BB": "BA", "consumer.358BB": "CBA", "consumer.379BB": "BAC",
        "consumer.14BB": "AB", "consumer.291BB": "ABC", "consumer.56BB": "AB",
        "consumer.379Aa": "BA", "consumer.291Aa": "ACB", "consumer.35Aa": "AB",
        "consumer.35BB": "AB", "consumer.56Aa": "BA",
    }  # fmt: skip
    names = {"A": "AaAa", "B": "BBBB", "C": "cooperative-sticky"}
    group = Negotiation()
    for member_id, wanted in supported.items():
        group = group.join(member_id, [names[one] for one in wanted])
    group = group.leave("consumer.291BB")
    assert group.votes() == {"AaAa": 5, "BBBB": 5}
    assert group.selected == "AaAa"
