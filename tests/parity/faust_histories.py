"""Random lives of Faust groups: who comes, goes, subscribes anew, and what topics do meanwhile."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

from partage.errors import UnsupportedProblemError
from partage.groups.faust.settings import CHANGELOGS, COPIED, GLOBALS, REPLICAS, URL
from partage.groups.registry import find
from partage.model import Assignment, Cluster, Group, Problem

if TYPE_CHECKING:
    import random

NAMES = ["orders", "orders-t-changelog", "clicks", "leader", "users", "users-g-changelog", "Ärger"]
SIZES = [1, 1, 2, 3, 4, 4, 6, 7, 8, 8, 12, 16, 33]


class Life:
    """One group's history; each round is a problem as the oracle reads it.

    Every member keeps the bytes that it would send, until a round tells it something else. Some come back with what they knew long ago, and some believe what is not so.
    """

    def __init__(self, rng: random.Random, *, wild: bool = True) -> None:
        self.rng = rng
        self.wild = wild and rng.random() < 0.3
        names = rng.sample(NAMES, rng.randint(1, 5))
        few = rng.sample(SIZES, 2)
        self.topics = {name: rng.choice(few) for name in names}
        self.replicas = rng.choice([0, 0, 1, 1, 1, 2, 2, 3, 5])
        changelogs = [t for t in names if t.endswith("changelog") and rng.random() < 0.8]
        self.globals = [t for t in changelogs if rng.random() < 0.3]
        self.copied = [t for t in self.globals if rng.random() < 0.5]
        self.changelogs = [t for t in changelogs if t not in self.globals]
        self.alike = rng.random() < 0.7
        self.count = 0
        self.knows: dict[str, str] = {}
        self.members: dict[str, dict[str, Any]] = {}
        self.gone: dict[str, dict[str, Any]] = {}
        for _ in range(rng.choice([1, 2, 3, 3, 4, 5, 8, 13])):
            self.joins()

    def joins(self) -> None:
        self.count += 1
        name = f"app-{self.rng.randrange(10**6):06d}-{self.count}"
        url = "http://same" if self.rng.random() < 0.05 else f"http://w{self.count}:6066"
        self.members[name] = {"id": name, "topics": self.subscription(), "url": url}
        self.knows[name] = json.dumps(self.believed(url), separators=(",", ":"))

    def subscription(self) -> list[str]:
        names = sorted(self.topics)
        if not self.alike:
            names = [t for t in names if self.rng.random() < 0.8 or t in self.globals]
        names = names or [self.rng.choice(sorted(self.topics))]
        if self.rng.random() < 0.03:
            names.append("not-there")
        self.rng.shuffle(names)
        return names

    def believed(self, url: str) -> dict[str, Any]:
        """What a member that has just come believes that it had: mostly nothing."""
        actives: dict[str, list[int]] = {}
        standbys: dict[str, list[int]] = {}
        if self.wild and self.rng.random() < 0.7:
            over = self.rng.random() < 0.05
            for topic, size in self.topics.items():
                top = 2 * size + 1 if over else size
                for lists in (actives, standbys):
                    if self.rng.random() < 0.7:
                        some = self.rng.randint(0, min(top, 9))
                        lists[topic] = [self.rng.randrange(top) for _ in range(some)]
        return {
            "assignment": {"actives": actives, "standbys": standbys},
            "url": url,
            "changelog_distribution": {},
            "external_topic_distribution": {},
            "topic_groups": {},
        }

    def changes(self) -> None:
        """Something happens."""
        rng = self.rng
        what = rng.random()
        if what < 0.35 or not self.members:
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                self.joins()
        elif what < 0.7 and len(self.members) > 1:
            for _ in range(rng.choice([1, 1, 1, 2])):
                if len(self.members) > 1:
                    name = rng.choice(sorted(self.members))
                    self.gone[name] = self.members.pop(name)
        elif what < 0.8 and self.gone:
            name = rng.choice(sorted(self.gone))
            self.members[name] = self.gone.pop(name)
        elif what < 0.88:
            topic = rng.choice(sorted(self.topics))
            self.topics[topic] += rng.choice([1, 2, 8]) if not self.wild else rng.choice([-1, 1, 2])
            self.topics[topic] = max(self.topics[topic], 1)
        elif what < 0.94:
            self.members[rng.choice(sorted(self.members))]["topics"] = self.subscription()
        else:
            members = list(self.members.items())
            rng.shuffle(members)
            self.members = dict(members)

    def problem(self) -> dict[str, Any]:
        """The round of now."""
        return {
            "topics": dict(self.topics),
            "members": [
                {**m, "userData": base64.b64encode(self.knows[i].encode()).decode()}
                for i, m in self.members.items()
            ],
            "replicas": self.replicas,
            "changelogs": self.changelogs,
            "globals": self.globals,
            "copied": self.copied,
        }

    def simulate(self, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """``count`` rounds with our plans; members keep what a plan assigns, or what they had."""
        found = []
        for _ in range(count):
            problem = self.problem()
            answer = ours(problem)
            found.append((problem, answer))
            self.knows |= answer.get("next", {})
            self.changes()
        return found


def ours(problem: dict[str, Any]) -> dict[str, Any]:
    """Our answer, in the oracle's form."""
    config = {
        REPLICAS: problem["replicas"], CHANGELOGS: problem["changelogs"],
        GLOBALS: problem["globals"], COPIED: problem["copied"],
    }  # fmt: skip
    strategy = find("faust").configure(config)
    known = [{k: v for k, v in m.items() if k != "url"} for m in problem["members"]]
    group = Group.from_json({"members": known})
    try:
        plan = strategy.assign(Problem(group, Cluster.from_topics(problem["topics"])))
    except UnsupportedProblemError as refusal:
        return {"error": refusal.peer_exception}
    after = {}
    for m in problem["members"]:
        mine = strategy.configure({URL: m["url"]})
        nothing = Assignment.from_lists(plan.index, (m["id"],), [[]])
        memory = mine.on_assignment(nothing, plan.user_data[m["id"]], 1)
        after[m["id"]] = mine.subscription_user_data(m["topics"], memory).decode()
    return {
        "wire": {i: [[t, p] for t, p in lists] for i, lists in plan.wire().items()},
        "assigned": {i: zlib.decompress(data).decode() for i, data in plan.user_data.items()},
        "next": after,
    }
