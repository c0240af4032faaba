"""Draw what each strategy does, from its real plans; with --check only compare.

A picture is a panel a moment of a small group's life: members are columns, partitions are
cells. The topic is a colour and a name, a partition that came from another member has a thick
border and an arrow, so that nothing hangs on colour. Panels are narrow: side by side on a wide
page, one below the other on a telephone. They have a ground of their own, light or dark.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import partage as pg
from partage.groups import registry
from partage.groups.failover import PRIORITY
from partage.groups.rounds import Join, Leave, play

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "img" / "strategies"

Pair = tuple[str, int]

STYLE = """
  .ground { fill: #ffffff; stroke: #c9ced6 } .said { fill: #1d2430 } .dim { fill: #5a6473 }
  .column { fill: #f3f5f8 } .cell { stroke: #3c4656; stroke-width: 1 }
  .moved { stroke: #1d2430; stroke-width: 3 } .late { fill: none; stroke-dasharray: 4 3 }
  .t0 { fill: #bfdcff } .t1 { fill: #ffd9a8 } .t2 { fill: #c8ebc5 } .t3 { fill: #e6d0f5 }
  text { font: 13px system-ui, sans-serif } .title { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #171b21; stroke: #3a424e } .said { fill: #e8ecf2 } .dim { fill: #a4aebc }
    .column { fill: #20262e } .cell { stroke: #97a3b3 } .moved { stroke: #ffffff }
    .t0 { fill: #1f4b80 } .t1 { fill: #7a4a0c } .t2 { fill: #245c2a } .t3 { fill: #56307a }
    .late { fill: none }
  }
"""
WIDTH, ROW, TOP = 330, 28, 66


@dataclass
class Panel:
    """One moment: who has what, who had it before, and what is with nobody yet."""

    title: str
    owned: dict[str, list[Pair]]
    before: dict[Pair, str] = field(default_factory=dict)
    late: dict[Pair, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def words(self) -> str:
        """The panel as a sentence, for those who do not see it."""
        parts = []
        for member, pairs in self.owned.items():
            cells = ", ".join(_name(p) + self._from(member, p, " from ") for p in pairs)
            parts.append(f"{member}: {cells or 'nothing'}")
        if self.late:
            parts.append("without owner yet: " + ", ".join(map(_name, self.late)))
        return f"{self.title}. {'; '.join(parts)}."

    def _from(self, member: str, pair: Pair, sign: str) -> str:
        was = self.before.get(pair, member)
        return "" if was == member else f"{sign}{was}"

    def height(self) -> int:
        """Of its picture."""
        deep = max(1, *(len(pairs) for pairs in self.owned.values()))
        return TOP + deep * ROW + 16 + (ROW + 6 if self.late else 0)

    def svg(self, height: int) -> str:
        """The panel as SVG."""
        wide = (WIDTH - 20) // len(self.owned)
        deep = max(1, *(len(pairs) for pairs in self.owned.values()))
        topics = sorted({t for pairs in self.owned.values() for t, _ in pairs})
        topics += sorted({t for t, _ in self.late} - set(topics))
        bottom = TOP + deep * ROW + 8
        body = []
        for i, (member, pairs) in enumerate(self.owned.items()):
            x = 10 + i * wide
            body.append(_box("column", x + 2, 34, wide - 4, bottom - 34))
            body.append(_text("said title", x + wide / 2, 50, f"{member} ({len(pairs)})"))
            if member in self.said:
                body.append(_text("dim", x + wide / 2, 64, self.said[member]))
            if not pairs:
                body.append(_text("dim", x + wide / 2, TOP + 22, "idle"))
            for j, pair in enumerate(pairs):
                came = self._from(member, pair, " ← ")
                kind = f"cell t{topics.index(pair[0]) % 4}{' moved' if came else ''}"
                y = TOP + 4 + j * ROW
                body.append(_box(kind, x + 7, y, wide - 14, ROW - 5))
                body.append(_text("said", x + wide / 2, y + 16, _name(pair) + came))
        if self.late:
            names = ", ".join(f"{_name(p)} → {m}" for p, m in self.late.items())
            body.append(_box("cell late", 12, bottom + 6, WIDTH - 24, ROW - 4))
            body.append(_text("said", WIDTH / 2, bottom + 23, f"nobody yet: {names}"))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">\n'
            f"<title>{escape(self.words())}</title>\n<style>{STYLE}</style>\n"
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" '
            f'height="{height - 1}" rx="8"/>\n'
            + _text("said title", WIDTH / 2, 23, self.title)
            + "".join(body)
            + "</svg>\n"
        )


def _name(pair: Pair) -> str:
    return f"{pair[0]}-{pair[1]}"


def _box(kind: str, x: float, y: float, wide: float, high: float) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="4"/>\n'


def _text(kind: str, x: float, y: float, words: str) -> str:
    shown = escape(words)
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{shown}</text>\n'


def _late(plan: pg.Assignment) -> dict[Pair, str]:
    """Partitions that are withheld, and their next owners."""
    if not isinstance(plan, pg.Plan):
        return {}
    now = {p for pairs in plan.to_pairs().values() for p in pairs}
    then = plan.settled().to_pairs()
    return {p: member for member, pairs in then.items() for p in pairs if p not in now}


def lived(
    strategy: object, topics: dict[str, int], members: list[pg.Member], gone: str
) -> list[Panel]:
    """All join; one leaves; where a second step follows, that too."""
    joined = ", ".join(m.id for m in members[:-1]) + f" and {members[-1].id} join"
    titles = [joined, f"{gone} leaves", f"{gone} leaves: the second step"]
    rounds = play(strategy, pg.Cluster.from_topics(topics), [Join(*members), Leave(gone)])
    alike = len({tuple(m.topics) for m in members}) == 1
    said = {} if alike else {m.id: "reads " + " ".join(m.topics) for m in members}
    return [
        Panel(
            f"{i}. {title}", dict(sorted(one.plan.to_pairs().items())), one.before,
            _late(one.plan), said,
        )
        for i, (title, one) in enumerate(zip(titles, rounds, strict=False), 1)
    ]  # fmt: skip


def equal(strategy: object) -> list[Panel]:
    """Two topics, three members that read both, one of which leaves."""
    members = [pg.Member(m, ["A", "B"]) for m in ("C1", "C2", "C3")]
    return lived(strategy, {"A": 4, "B": 4}, members, "C2")


def unequal(strategy: object) -> list[Panel]:
    """KIP-49's case: a member that reads more topics than the other two."""
    members = [pg.Member("C1", ["A", "B"]), pg.Member("C2", ["A"]), pg.Member("C3", ["A", "B"])]
    return lived(strategy, {"A": 4, "B": 3}, members, "C3")


def joining(strategy: str) -> list[Panel]:
    """One joins two that have everything: the first step and the second."""
    cluster = pg.Cluster.from_topics({"A": 3, "B": 3})
    members = [pg.Member(m, ["A", "B"]) for m in ("C1", "C2")]
    rounds = play(strategy, cluster, [Join(*members), Join(pg.Member("C3", ["A", "B"]))])
    titles = ["C1 and C2 read", "C3 joins: the first step", "C3 joins: the second step"]
    had = rounds[0].owner  # in the second step too: until the first they were with these
    return [
        Panel(f"{i}. {title}", one.plan.to_pairs(), had if i > 1 else {}, _late(one.plan))
        for i, (title, one) in enumerate(zip(titles, rounds, strict=True), 1)
    ]


def standing_by(_: str) -> list[Panel]:
    """Three priorities; the highest fails."""
    found = registry.find("failover")
    members, said = [], {}
    for member, priority in (("C1", 10), ("C2", 30), ("C3", 20)):
        data = found.configure({PRIORITY: priority}).subscription_user_data(["A"])
        members.append(pg.Member(member, ["A", "B"], user_data=data))
        said[member] = f"priority {priority}"
    cluster = pg.Cluster.from_topics({"A": 3, "B": 2})
    out, before = [], {}
    for title, living in (
        ("1. All members are present", members),
        ("2. C2 fails", [*members[:1], members[2]]),
    ):
        plan = pg.assign(found, pg.Group(living), cluster)
        out.append(Panel(title, plan.to_pairs(), before, said=said))
        before = {p: m for m, pairs in plan.to_pairs().items() for p in pairs}
    return out


def sharing(strategy: str) -> list[Panel]:
    """Three members of a share group on two partitions; then one."""
    cluster = pg.Cluster.from_topics({"A": 2})
    members = [pg.Member(m, ["A"]) for m in ("C1", "C2", "C3")]
    first = pg.assign(strategy, pg.Group(members), cluster).to_pairs()
    left = pg.Group([m.replaced(owned=first[m.id]) for m in members if m.id != "C2"])
    second = pg.assign(strategy, left, cluster).to_pairs()
    return [
        Panel("1. Three members, two partitions", first),
        Panel("2. C2 leaves", second),
    ]


def copied(strategy: str) -> list[Panel]:
    """Two topics of one size, a standby of each partition; a member fails, another one comes."""
    cluster = pg.Cluster.from_topics({"A": 4, "B": 4})
    members = [pg.Member(m, ["A", "B"]) for m in ("C1", "C2", "C3")]
    changes = [Join(*members), Leave("C2"), Join(pg.Member("C4", ["A", "B"]))]
    out, before = [], {}
    for title, one in zip(
        ("1. C1, C2 and C3 join", "2. C2 fails", "3. C4 joins"),
        play(strategy, cluster, changes),
        strict=True,
    ):
        copies = {m: sorted(metadata.standbys["A"]) for m, metadata in one.plan.metadata.items()}
        said = {m: "copies of " + " ".join(map(str, numbers)) for m, numbers in copies.items()}
        said = {m: text if copies[m] else "no copies" for m, text in said.items()}
        out.append(Panel(title, one.plan.to_pairs(), before, said=said))
        before = one.owner
    return out


STORIES = {
    "range": equal, "roundrobin": equal, "sticky": equal, "cooperative-sticky": joining,
    "roundrobin:0.8": equal, "server:range": equal, "server:uniform": equal,
    "server:simple": sharing, "fair": unequal, "failover": standing_by, "optimal": joining,
    "faust": copied, "faust:copartitioned": copied,
}  # fmt: skip


def file_of(strategy: str) -> str:
    """A strategy's name as part of a file's."""
    return strategy.replace(":", "-")


def pictures() -> dict[Path, str]:
    """Every file and what has to be in it."""
    out = {}
    for name, story in STORIES.items():
        panels = story(name)
        height = max(panel.height() for panel in panels)
        for i, panel in enumerate(panels, 1):
            out[FOLDER / f"{file_of(name)}-{i}.svg"] = panel.svg(height)
    return out


def lines(strategy: str) -> str:
    """The pictures as a page of the documentation has them: in a row that may break."""
    return "\n".join(
        f"![{panel.words()}](../img/strategies/{file_of(strategy)}-{i}.svg)"
        for i, panel in enumerate(STORIES[strategy](strategy), 1)
    )


def main() -> int:
    """Exit code 1 if --check was asked for, and a picture is not what the strategy does."""
    made = pictures()
    stale = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    stale += sorted(set(FOLDER.glob("*.svg")) - set(made))
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.name} is not what the strategy does; run tools/strategy_pictures.py")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in made:
            path.write_text(made[path], "utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
