"""The engine: largest flows against cuts, and what is counted as work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.network import FlowNetwork, WorkBudget, proportional_flow


@st.composite
def networks(draw):
    nodes = draw(st.integers(2, 7))
    node = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(node, node, st.integers(0, 6)), max_size=20))
    return nodes, [a for a in arcs if a[0] != a[1] and a[0] != 1 and a[1] != 0]


def _smallest_cut(nodes, arcs):
    """Over all sets of nodes with the source and without the sink."""
    cuts = []
    for bits in range(1 << (nodes - 2)):
        side = {0, *(i + 2 for i in range(nodes - 2) if bits >> i & 1)}
        cuts.append(sum(c for t, h, c in arcs if t in side and h not in side))
    return min(cuts)


@given(networks())
def test_the_flow_is_as_large_as_the_smallest_cut(found):
    """Maximum flow equals minimum cut, on any network; and it is a flow."""
    nodes, arcs = found
    tail, head, capacity = (np.array([a[i] for a in arcs], np.int64) for i in range(3))
    network = FlowNetwork(nodes, tail, head, capacity, source=0, sink=1)
    network.maximise_flow()
    flow = network.flow_by_arc()
    balance = np.bincount(head, flow, nodes) - np.bincount(tail, flow, nodes)
    assert ((flow >= 0) & (flow <= capacity)).all()
    assert balance[1] == -balance[0] == _smallest_cut(nodes, arcs)
    assert not balance[2:].any()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), unique=True), st.data())
def test_spreading_stays_within_supply_and_room(pairs, data):
    """Whatever it hands out, no row gives more than it has, no column gets more than fits."""
    pairs.sort()
    row, column = (np.array([p[i] for p in pairs], np.int64) for i in range(2))
    numbers = st.lists(st.integers(0, 50), min_size=5, max_size=5)
    supply, room = (np.array(data.draw(numbers), np.int64) for _ in range(2))
    amount = proportional_flow(row, column, supply, room)
    assert (amount >= 0).all()
    assert (np.bincount(row, amount, 5) <= supply).all()
    assert (np.bincount(column, amount, 5) <= room).all()


def test_work_is_counted_down():
    """A budget that is used up raises; until then it only counts."""
    budget = WorkBudget(5)
    budget.subtract_work(5)
    with pytest.raises(ProblemTooLargeError):
        budget.subtract_work(1)
