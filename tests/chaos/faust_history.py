"""What the log has of a Faust group: who was active and standby in each generation, and what is wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chaos.history import rows
from partage.wire.consumer_protocol import decode_assignment
from partage.wire.faust import FaustMetadata, read_faust_assignment
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    from pathlib import Path

_OF_A_GROUP = b"\x00\x02"  # version of the key, which says what the record is about
#: By generation the assignment that each member received: the client's list, and Faust's own.
Given = dict[int, dict[str, tuple[list[tuple[str, int]], FaustMetadata]]]


def given(capture: Path, group: str) -> Given:
    """The generations of a Faust group that have assignments."""
    found: Given = {}
    for _, _, key, value in rows(capture):
        said = decode_record(key, value) if key[:2] == _OF_A_GROUP else None
        if said is None or said.key["group"] != group or not said.value:
            continue
        members = {m["memberId"]: m["assignment"] for m in said.value["members"]}
        if any(members.values()):
            # A member that the leader left out received nothing.
            found[said.value["generation"]] = {m: _received(m, sent) for m, sent in members.items()}
    return found


def _received(member: str, sent: bytes) -> tuple[list[tuple[str, int]], FaustMetadata]:
    if not sent:
        return [], FaustMetadata({}, {}, url=member)
    read = decode_assignment(sent)
    return list(read.partitions), read_faust_assignment(read.user_data)


def given_otherwise(app: str, partitions: int, log: Given) -> list[str]:
    """Where a generation is not as an assignor has to make it: every partition of the words has one
    owner, its table's is active there too, one member leads, and with several members each partition
    of the table has one standby, on another member.
    """
    wanted = Counter(range(partitions))
    wrong = []
    for generation, members in sorted(log.items()):
        words, table = f"{app}-words", f"{app}-counts-changelog"
        said = []
        if Counter(p for has, _ in members.values() for t, p in has if t == words) != wanted:
            said.append("not every partition of the words has one owner")
        for has, m in members.values():
            if sorted(p for t, p in has if t == words) != sorted(m.actives.get(words, ())):
                said.append(f"{m.url} has other words than Faust received")
            active = sorted(m.actives.get(table, ()))
            if active != sorted(m.actives.get(words, ())):
                said.append(f"{m.url} has other partitions of the table than of the words")
            if set(active) & set(m.standbys.get(table, ())):
                said.append(f"{m.url} is its own standby")
        if (
            sum(len(m.actives.get(f"{app}-__assignor-__leader", ())) for _, m in members.values())
            != 1
        ):
            said.append("not one leader")
        standbys = Counter(p for _, m in members.values() for p in m.standbys.get(table, ()))
        if standbys != (wanted if len(members) > 1 else Counter()):
            said.append(f"standbys {sorted(standbys.elements())}")
        wrong += [f"{app} generation {generation}: {one}" for one in said]
    return wrong
