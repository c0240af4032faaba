"""Notation of clusters, groups and assignments in a line of text.

t1x6 t2x7                       topics with their partition counts
t1x2(a b|b c)                   the same with the replica racks of each partition
a: t1 t2 | b#i-1@rack-a: t1     members: id, #instance id, @rack, subscribed topics
a: t1 {t1-0 t1-1 @4} | b: t1    claims, with their generation if there is one
a: t1-0 t1-2 | b: t1-1 | c: –   partitions by member, in order; – or nothing for none
"""

from __future__ import annotations

import re

from partage.errors import InvalidProblemError
from partage.model import NO_GENERATION, Assignment, Cluster, Group, Member

__all__ = ["assignment", "cluster", "group", "written"]

_TOPIC = re.compile(r"(?P<name>\S+?)[x×](?P<count>[0-9]+)(\((?P<racks>[^)]*)\))?(?=\s|$)")
_MEMBER = re.compile(
    r"(?P<id>[^#@:\s]+)(#(?P<instance>[^@:\s]+))?(@(?P<rack>[^:\s]+))?\s*:"
    r"(?P<topics>[^{|]*)(\{(?P<owned>[^}@]*)(@(?P<generation>-?[0-9]+))?\s*\})?\s*"
)
_NOTHING = {"–", "-", "—"}


def cluster(text: str) -> Cluster:
    """Parse the topics of a Kafka cluster from short text, such as ``"t1x6 t2x7"``, for tests.

    This text means topic t1 with 6 partitions and t2 with 7. The racks of each partition's replicas
    may follow in parentheses, with ``|`` between partitions: ``"t1x2(a b|b c)"``.

    Raises:
        InvalidProblemError: the text does not follow the notation.

    >>> cluster("orders×2(a b|b c) clicks×3").racks_of(1)
    ('b', 'c')
    """
    topics: dict[str, int | list[list[str | None]]] = {}
    for match in _consecutive_matches(_TOPIC, text, "topics", r"\s*"):
        count = int(match["count"])
        topics[match["name"]] = count
        if match["racks"] is not None:
            rows: list[list[str | None]] = [list(row.split()) for row in match["racks"].split("|")]
            if len(rows) != count:
                what = f"must have the racks of {count} partitions"
                raise InvalidProblemError(what, path=match["name"], value=match["racks"])
            topics[match["name"]] = rows
    return Cluster.from_topics(topics)


def group(text: str) -> Group:
    """Parse a consumer group from short text, such as ``"a: t1 t2 | b: t1"``, for tests.

    Each member id is followed by its subscribed topics. In ``"b#i@rack: t1 {t1-0 @4}"``, member b
    also has instance id i and a rack, and owns partition t1-0 since generation 4.

    Raises:
        InvalidProblemError: the text does not follow the notation.

    >>> [(m.id, m.topics, m.instance_id, m.rack) for m in group("a: t1 t2 | b#i@r: t1")]
    [('a', ('t1', 't2'), None, None), ('b', ('t1',), 'i', 'r')]
    """
    return Group(
        Member(
            match["id"],
            match["topics"].split(),
            instance_id=match["instance"],
            rack=match["rack"],
            owned=_pairs((match["owned"] or "").split()),
            generation=int(match["generation"] or NO_GENERATION),
        )
        for match in _consecutive_matches(_MEMBER, text, "members", r"\s*\|?\s*")
    )


def assignment(text: str, cluster: Cluster) -> Assignment:
    """Parse a partition assignment from short text, such as ``"a: t1-0 t1-2 | b: t1-1"``.

    Tests use this notation. Each member id is followed by its partitions, in order; ``–`` stands
    for none. The cluster gives each topic its number in the result.

    Raises:
        InvalidProblemError: the text does not follow the notation.

    >>> assignment("a: t-1 t-0 | b:", cluster("t×2")).to_dict()
    {'a': {'t': [1, 0]}, 'b': {}}
    """
    owned = {}
    for part in text.split("|"):
        member, colon, names = part.partition(":")
        if not colon:
            raise InvalidProblemError("must be 'member: t-0 ...'", path="assignment", value=part)
        owned[member.strip()] = _pairs([n for n in names.split() if n not in _NOTHING])
    number = {name: cluster.topic(name) for pairs in owned.values() for name, _ in pairs}
    made: Assignment = Assignment.of(cluster.index, owned, topic_number=number)
    return made


def written(assigned: Assignment) -> str:
    """Format a partition assignment as one line of text, such as ``"a: t-1 t-0 | b: –"``.

    It is the notation that `assignment` parses, so tests can compare assignments as text.

    >>> written(assignment("a: t-1 t-0 | b:", cluster("t×2")))
    'a: t-1 t-0 | b: –'
    """
    return " | ".join(
        f"{member}: {' '.join(f'{t}-{p}' for t, p in pairs) or '–'}"
        for member, pairs in assigned.to_pairs().items()
    )


def _pairs(names: list[str]) -> list[tuple[str, int]]:
    pairs = []
    for name in names:
        topic, _, number = name.rpartition("-")
        if not topic or not re.fullmatch("[0-9]+", number):
            raise InvalidProblemError("must be topic-number", path="partition", value=name)
        pairs.append((topic, int(number)))
    return pairs


def _consecutive_matches(
    pattern: re.Pattern[str], text: str, field: str, separator: str
) -> list[re.Match[str]]:
    """Return the matches of a regular expression that together cover a text from begin to end.

    It is the tokenizer of the short notation for groups and clusters: each match is one item, and a
    part of the text that does not match is an error.

    Args:
        pattern: the regular expression of one match.
        text: the text to cover.
        field: name of the text in errors.
        separator: regular expression of the text between two matches.

    Raises:
        InvalidProblemError: a part of the text does not match.
    """
    found: list[re.Match[str]] = []
    at, gap = 0, re.compile(separator)
    while True:
        skipped = gap.match(text, at)
        at = skipped.end() if skipped else at
        if at == len(text):
            return found
        match = pattern.match(text, at)
        if match is None:
            raise InvalidProblemError("is not understood from here", path=field, value=text[at:])
        found.append(match)
        at = match.end()


def pairs_with_unresolved(assigned: Assignment) -> dict[str, list[tuple[str, int]]]:
    """Return each member's (topic, partition) pairs, including partitions that do not exist.

    A recorded assignment may contain partitions that the cluster does not have.
    `Assignment.to_pairs` omits them; here they are at their original position in the member's list.

    >>> from partage.model import Index
    >>> made = Assignment.of(Index.of({"t": 1}), {"c1": [("gone", 7), ("t", 0)]})
    >>> made.to_pairs(), pairs_with_unresolved(made)
    ({'c1': [('t', 0)]}, {'c1': [('gone', 7), ('t', 0)]})
    """
    pairs = assigned.to_pairs()
    # In ascending order, so that earlier insertions do not shift later places.
    for one in sorted(assigned.unresolved, key=lambda one: one.place):
        of_member = pairs[one.member]
        at = one.place if one.place >= 0 else len(of_member)
        of_member.insert(at, (one.topic, one.partition))
    return pairs
