"""Members that were put out for their silence and were back soon: they may have been slow.

A table of members has ids that are new after each return. So members are told by client id
and host (or by their instance): if there are fewer of a kind after an expiry than before, and
soon as many again, somebody came back. That it was the same process nobody knows: one that was
killed and started again at once looks alike. One that is back minutes later was started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_TIMEOUTS", "returns", "silences_by_group"]

#: Who is silent for longer than so many session timeouts was not merely slow: it was replaced.
MOST_TIMEOUTS = 3
#: Rebalances after an expiry in which a return is looked for.
_AHEAD = 20

#: Time of a rebalance, whether an expiry caused it, how many members of each kind it has, and
#: their longest session timeout.
Scene = tuple[int, bool, Counter[str], int]


def returns(scenes: Sequence[Scene]) -> list[int]:
    """How long each member that came back had been silent, in ms: its timeout and its absence.

    >>> alone, both, session = Counter(a=1), Counter(a=1, b=1), 6_000
    >>> gone, back = (9_000, True, alone, session), (11_000, False, both, session)
    >>> returns([(0, False, both, session), gone, back])
    [8000]
    """
    found = []
    for i, (time, expired, now, _) in enumerate(scenes):
        if not expired or not i:
            continue
        session = scenes[i - 1][3]
        for kind in scenes[i - 1][2] - now:
            for later, _, then, _ in scenes[i + 1 : i + 1 + _AHEAD]:
                silent = session + later - time
                if silent > MOST_TIMEOUTS * session:  # of no timeout nothing is known
                    break
                if then[kind] > now[kind]:
                    found.append(silent)
                    break
    return found


def silences_by_group(
    members: pa.Table, rebalances: pa.Table, broker_ms: int = 0
) -> dict[str, list[int]]:
    """`returns` of every group that has expiries; ``broker_ms`` for members that send no timeout
    of their own, 0 if it is not known.
    """
    from pyarrow import compute as pc

    expiry = pc.fill_null(pc.equal(rebalances["cause_kind"], "expiry"), False)
    names = pc.unique(rebalances.filter(expiry)["group"])
    if not len(names):
        return {}
    key = ["group", "incarnation", "generation"]
    wanted = rebalances.filter(pc.is_in(rebalances["group"], names))
    kind = pc.coalesce(
        members["instance"],
        pc.binary_join_element_wise(
            pc.fill_null(members["client_id"], ""), pc.fill_null(members["client_host"], ""), "@"
        ),
    )
    some = members.append_column("kind", kind).filter(pc.is_in(members["group"], names))
    there: dict[tuple[str, int, int], tuple[Counter[str], int]] = {}
    for row in some.select([*key, "kind", "session_timeout_ms"]).to_pylist():
        place = (row["group"], row["incarnation"], row["generation"])
        counts, session = there.get(place, (Counter(), 0))
        counts[row["kind"]] += 1
        there[place] = counts, max(session, _sent(row["session_timeout_ms"], broker_ms))
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    scenes: dict[str, list[Scene]] = {}
    for row in wanted.sort_by(order).select([*key, "time_ms", "cause_kind"]).to_pylist():
        place = (row["group"], row["incarnation"], row["generation"])
        counts, session = there.get(place, (Counter(), 0))
        expired = row["cause_kind"] == "expiry"
        scenes.setdefault(row["group"], []).append((row["time_ms"], expired, counts, session))
    return {group: found for group, of in scenes.items() if (found := returns(of))}


def _sent(session_ms: int | None, broker_ms: int) -> int:
    """Members of the new protocols send none: the table has -1."""
    return session_ms if session_ms is not None and session_ms > 0 else broker_ms
