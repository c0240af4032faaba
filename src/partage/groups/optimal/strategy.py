"""The strategy `optimal`: its objective, and the choice of solver for each problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.layout import plan_in_order
from partage.groups.optimal.certificate import (
    certify_counts,
    certify_limited,
    certify_weights,
    count_forced_moves,
)
from partage.groups.optimal.count_balance import balance_counts
from partage.groups.optimal.move_limit import balance_within_limit
from partage.groups.optimal.problem import CanonicalProblem, Int64Array
from partage.groups.optimal.settings import (
    OPTIONS,
    PREFIX,
    OptimalSettings,
    expand_to_partitions,
    find_colocation_sets,
    input_warnings,
    needs_loads,
    rack_costs,
)
from partage.groups.optimal.weight_balance import (
    Shares,
    balance_weights,
    member_shares,
    scale_to_integers,
)
from partage.groups.sticky.decision import must_revoke_first
from partage.model import Certificate, Plan, Problem, RackCosts, RackTable
from partage.model.certificate import DeferredCertificate
from partage.model.index import Int32Array
from partage.solve.assignment.branch_and_bound import MOST_ITEMS

__all__ = ["Optimal"]


@dataclass(frozen=True, repr=False)
class Optimal(PlainStrategy):
    """Partage's optimal assignor: most even loads, then fewest rack mismatches, then fewest moves.

    The objective, in order of priority:

    1. valid: every partition with subscribers has one owner, which subscribes to its topic;
    2. the most even loads. By counts they are least-majorised: the largest load is as small as
       possible, then the second largest, and so on. With weights of partitions or members, or
       with capacities: the least load beyond capacities, then the same for relative loads (load
       per unit of member weight);
    3. the fewest rack mismatches, or what reading across racks costs in money;
    4. the fewest moves: if nothing changed nothing moves, and if a member leaves only its
       partitions move, unless balance needs more;
    5. co-partitioned topics together, by option;
    6. former claimants, then each topic spread evenly over its subscribers (by counts exact for
       the members' loads, by weight among partitions of equal weight, up to a limit of size; see
       `spread_exactly`);
    7. then a choice that neither join order nor hash seed changes.

    Settings (`configure`). A mapping or list may be given as JSON text:

    * ``assignment.optimal.weights``: {topic: load, or list of loads by partition number}: bytes,
      lag, records per second. Partitions without one weigh the mean of the others. Members'
      weight (share of the load) and capacity (in the same unit) are their own. A member of
      weight 0 owns only what no other member may own, before capacities count.
    * ``assignment.optimal.racks`` (true): whether racks matter at all.
    * ``assignment.optimal.rack.prices``: {member's rack: {replica's rack: money per GB}}. A missing
      pair costs nothing within a rack, otherwise the highest price.
    * ``assignment.optimal.traffic``: GB by topic or partition, as weights; 1 each if not set.
    * ``assignment.optimal.max.moves``: most owned partitions that may move in one rebalance;
      2 to 4 are then the best within this limit. Partitions that no claimant may keep move even
      beyond the limit.
    * ``assignment.optimal.together`` ("no"): "prefer" keeps co-partitioned topics (the same
      partition numbers and subscribers) together where nothing above is worse for it;
      "require" does so before 2.
    * ``assignment.optimal.copartitioned``: lists of topics that belong together; all topics that
      can if not set.
    * ``assignment.optimal.tolerance``: with weights, the least gain that is worth a move, as a
      fraction of an average member's load: 0.001 if not set, and 0 for at most 16 partitions.
      Weights that are measured before each rebalance need a larger one.

    It is cooperative: partitions that move have no owner in this plan (``plan.withheld``), and the
    follow-up rebalance assigns them. ``plan.settled()`` is the plan after the follow-up.

    ``plan.certificate`` has the plan's figures with their bounds: no plan that is as good in all
    previous figures has a value below the bound. `partage.judge.verify_certificate` proves both
    from the problem alone. By counts all gaps are 0. By weights (an NP-hard problem), with a limit
    of moves, or with "require", the plan is the best found, and the certificate says how far it may
    be from the optimum. Up to 16 partitions it is optimal, unless the search reaches its limit of
    work. By counts, too, the plan is only the best found if the exact answer would take more than
    some seconds; a warning says so.

    Claims are the subscription's owned partitions. If claims contradict each other, the newest
    generation counts. In a group with the eager protocol members own nothing when they join, so no
    partition has a previous owner.

    Cost: by counts O(P) on arrays for P partitions, and a flow whose size grows with the number of
    different members, subscriptions and sets of racks. By weights O(P log P), in Python.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 4})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> plan = Optimal().assign(Problem(group, cluster))
    >>> plan.to_dict(), plan.settled().owner.tolist()
    ({'a': {'t': [0, 1]}, 'b': {'t': [3]}}, [0, 0, 1, 1])
    >>> dict(plan.certificate.figures), plan.certificate.gaps["moves"]
    ({'spread': 0, 'rack cost': 0, 'moves': 1, 'topic excess': 0}, 0)
    """

    settings: OptimalSettings = field(default_factory=OptimalSettings)

    name = "optimal"
    options = OPTIONS
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    reads_generation = False
    instance_ids_only_sort = True

    def configure(self, config: Mapping[str, object]) -> Optimal:
        """Return a copy of the optimal assignor with the settings of a client's configuration.

        For example, ``assignment.optimal.max.moves`` limits the number of moved partitions.
        ``config`` has values by setting name; the class documents the settings.

        Raises:
            InvalidConfigError: a setting has the wrong type or range.
        """
        return replace(self, settings=self.settings.with_config(config))

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign all partitions optimally; a partition that moves has no owner in the first plan.

        Its old owner must revoke it first. The follow-up rebalance assigns it to the new owner
        (KIP-429). If the number of moves is limited, the follow-up moves nothing else.

        Args:
            problem: the consumer group and the cluster.
            memory: ``plan.memory`` of the previous rebalance: the owners of revoked partitions.
        """
        canonical = CanonicalProblem(problem)
        racks = rack_costs(problem, self.settings)
        table = (
            None if racks is None else racks.table(problem).restricted_to(canonical.rows.partition)
        )
        family: Int64Array | None = None
        warnings = input_warnings(problem, self.settings)
        if self.settings.together != "no":
            family, apart = find_colocation_sets(canonical, self.settings)
            warnings += apart
        promised = _promised_owners(canonical, memory)
        limit = self.settings.max_moves
        if limit is not None:
            # The follow-up assigns withheld partitions; the first phase used up the limit.
            limit, forced = 0 if promised else limit, count_forced_moves(canonical)
            if forced > limit:
                warnings = (*warnings, _forced_warning(forced, limit))
            limit = max(limit, forced)
        if self.settings.together != "require" and not needs_loads(problem, self.settings):
            try:
                found = balance_counts(canonical, table, family)
            except ProblemTooLargeError as e:
                warnings = (*warnings, f"{e}: this is the best plan found")
            else:
                certify = partial(certify_counts, canonical, found, racks, table)
                if limit is None:
                    # Few leaders read the certificate, which takes half as long as the plan.
                    proof = DeferredCertificate(certify)
                    return _build_first_plan(
                        canonical, found.owner, certificate=proof, warnings=warnings
                    )
                if (proven := certify()).figures["moves"] <= limit:
                    return _build_first_plan(
                        canonical, found.owner, certificate=proven, warnings=warnings
                    )
                if not promised:
                    request = _OptimalRequest(canonical, racks, table, family, promised, limit)
                    return self._plan_within_limit(request, limit, warnings)
        request = _OptimalRequest(canonical, racks, table, family, promised, limit)
        return self._plan_by_loads(request, warnings)

    def _plan_within_limit(
        self, request: _OptimalRequest, max_moves: int, warnings: tuple[str, ...]
    ) -> Plan:
        """Return the plan with the most even partition counts and at most ``max_moves`` moves.

        If the exact solver would take too long, a local search finds the plan, and ``warnings`` say
        so.
        """
        canonical = request.canonical
        # An exact solver finds the plan. If that would take too long, a local search is used. The
        # search also tries to improve plans of up to 16 partitions that are not proven optimal.
        try:
            found = balance_within_limit(canonical, request.table, request.family, max_moves)
        except ProblemTooLargeError as e:
            return self._plan_by_loads(request, (*warnings, f"{e}: this is the best plan found"))
        proof = certify_limited(canonical, found, request.racks, request.table, max_moves)
        if proof.optimal or canonical.partition_count > MOST_ITEMS:
            return _build_first_plan(canonical, found.owner, certificate=proof, warnings=warnings)
        return self._plan_by_loads(request, warnings)

    def _plan_by_loads(self, request: _OptimalRequest, warnings: tuple[str, ...]) -> Plan:
        """Balance the weighted loads of members by local search, and return the certified plan.

        Members' weights and capacities count, too. A warning says if the search reached its limit
        of work.
        """
        canonical = request.canonical
        required = request.family if self.settings.together == "require" else None
        weight = expand_to_partitions(canonical.problem, self.settings.weights or {})
        mine, scale = scale_to_integers(weight[canonical.rows.partition])
        shares = member_shares(canonical, scale)
        plan = balance_weights(
            canonical, request.table, mine, shares=shares, together=required,
            hints=request.promised, tolerance=self._tolerance(mine, shares),
            most_moves=np.inf if request.limit is None else request.limit,
        )  # fmt: skip
        proof = certify_weights(
            canonical, plan, partition_weights=weight, scale=scale,
            shares=member_shares(canonical, 1.0),
            costs=request.racks, rack_costs=request.table, together=required,
            max_moves=request.limit,
        )  # fmt: skip
        if not plan.complete:
            warnings = (*warnings, _unfinished_warning(proof))
        return _build_first_plan(canonical, plan.owner, certificate=proof, warnings=warnings)

    def _tolerance(self, weight: NDArray[np.float64], shares: Shares) -> float:
        # In units of relative load.
        fraction = self.settings.tolerance
        if fraction is None:
            fraction = 0.0 if len(weight) <= MOST_ITEMS else 0.001
        return fraction * float(weight.sum()) / max(float(shares.speed.sum()), 1e-9)


@dataclass(frozen=True, slots=True, eq=False)
class _OptimalRequest:
    """Inputs of the optimal assignor, derived as arrays from the group, the cluster and the
    settings.

    Attributes:
        canonical: the problem, with members and partitions sorted independently of the join order.
        racks: costs of consuming across racks, None if they do not matter.
        table: these costs by partition and member.
        family: int64[T], number of each topic's co-location set (see `find_colocation_sets`); None
            if topics need not stay together.
        promised: the owner that the previous plan chose for a partition that had to be revoked
            first (see `_promised_owners`).
        limit: the limit of moves, at least the number that no plan can avoid; None for none.
    """

    canonical: CanonicalProblem
    racks: RackCosts | None
    table: RackTable | None
    family: Int64Array | None
    promised: Mapping[int, int]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Promises:
    """Partitions that other members must revoke first, with the new owner of each (KIP-429).

    The optimal assignor stores them in the plan's ``memory``, so that the follow-up rebalance gives
    the partitions to these members.

    Attributes:
        destined: the new owner's member id by (topic, partition number).
    """

    destined: Mapping[tuple[str, int], str]


def _forced_warning(forced: int, limit: int) -> str:
    return (
        f"{PREFIX}max.moves is {limit}, and {forced} partitions must move because none of their "
        "previous owners subscribes to them now"
    )


def _unfinished_warning(proof: Certificate) -> str:
    largest, least = proof.figures["largest"], proof.bounds["largest"]
    above = f", at most {largest / least - 1:.1%} above the best" if least > 0 else ""
    return (
        "the search by weight reached its limit of work before it ended: the largest load is "
        f"{largest:.6g}{above}"
    )


def _build_first_plan(canonical: CanonicalProblem, owner: Int32Array, **more: Any) -> Plan:
    """Build the plan of the first of two cooperative rebalances, without the partitions that move.

    Their previous owners must revoke them first (KIP-429). The second rebalance assigns them to
    ``owner`` (int32[n]), which the plan's memory stores.
    """
    problem, partition = canonical.problem, canonical.rows.partition
    place, row = canonical.claimed_pairs
    member = canonical.order[owner] if len(owner) else owner
    waits = (
        must_revoke_first(place.astype(np.int32), row.astype(np.int32), owner) if len(row) else None
    )
    if waits is None or not waits.any():
        return plan_in_order(problem, partition, member, **more)
    goes = np.flatnonzero(~waits)
    waiting = np.flatnonzero(waits)
    names = [problem.index.name(p) for p in partition[waiting].tolist()]
    ids = [problem.group.ids[m] for m in member[waiting].tolist()]
    return plan_in_order(
        problem, partition[goes], member[goes],
        withheld=partition[waiting], destined=member[waiting],
        memory=Promises(dict(zip(names, ids, strict=True))), **more,
    )  # fmt: skip


def _promised_owners(canonical: CanonicalProblem, memory: object) -> dict[int, int]:
    """Return the new owners of partitions that had to be revoked in the previous rebalance.

    The result is a dict from partition to owner, as indices in canonical order; members that left
    are omitted. ``memory`` is the previous plan's `Promises`, otherwise the dict is empty.
    """
    if not isinstance(memory, Promises):
        return {}
    place = np.empty(canonical.member_count, np.int64)
    place[canonical.order] = np.arange(canonical.member_count)
    position = canonical.problem.group.position
    row_of = np.full(canonical.problem.index.partitions, -1, np.int64)
    row_of[canonical.rows.partition] = np.arange(canonical.partition_count)
    out = {}
    for (topic, number), member in memory.destined.items():
        t = canonical.problem.cluster.topic(topic)
        p = canonical.problem.index.locate(t, number) if t >= 0 else -1
        row = int(row_of[p]) if p >= 0 else -1
        if row >= 0 and member in position and not canonical.current_claims.owned[row]:
            out[row] = int(place[position[member]])
    return out
