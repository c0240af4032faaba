"""Ours on one problem, from names to the int32 plan; see README.md for arguments and answer.

With ``wire`` in the problem: from the bytes of all subscriptions to the bytes of all assignments.
"""

from __future__ import annotations

import json
import sys

from clock import arguments, peak, timed, write
from problems import GENERATION, cluster_of, joined_of, lists_of, sent_by, view_of

import partage as pg
from partage.clients.shared import Consumer
from partage.groups.registry import find
from partage.kernels import warm_up
from partage.model import Problem

ONCE = (1, 1, 0.0, 0.0)


def main():
    """Answer the problem of the arguments, or with ``--serve`` one problem per line of input."""
    if sys.argv[1:] != ["--serve"]:
        answer_one(sys.argv[-6:])
        return
    for line in sys.stdin:
        answer_one(json.loads(line))


def answer_one(words):
    """Time one problem, write the plan, print the answer."""
    spec, path, limits = arguments(words)
    answer, plan = wire(spec, limits) if spec.get("wire") else names_to_plan(spec, limits)
    # As Java's first cooperative assignment: without partitions that must be revoked first.
    write(plan.owner.tolist(), path)
    answer["given"] = int((plan.owner >= 0).sum())
    answer["numba"] = "numba" in sys.modules
    answer["version"] = f"partage {pg.__version__}"
    print(json.dumps(answer), flush=True)


def wire(spec, limits):
    """Return the answer and the plan of a leader, from bytes to bytes."""
    joined, view = joined_of(spec), view_of(spec)

    def lead():
        return Consumer(find(spec["strategy"])).assign(joined, view, generation=GENERATION + 1)

    answer = {}
    # The first run makes the view's cluster, as after new metadata.
    answer["first_nanos"], _ = timed(lead, ONCE)
    answer["plain_cpu_nanos"] = []
    answer["plain_nanos"], _ = timed(lead, limits, answer["plain_cpu_nanos"])
    warm_up().join()
    answer["cpu_nanos"] = []
    answer["nanos"], led = timed(lead, limits, answer["cpu_nanos"])
    answer["peak"] = peak()
    return answer, led.plan


def names_to_plan(spec, limits):
    """Return the answer and the plan, from lists of names."""
    strategy, cluster = find(spec["strategy"]), cluster_of(spec)
    ids, sent = [one["id"] for one in spec["members"]], sent_by(spec)
    if spec["strategy"] == "sticky":
        # It believes the user data alone.
        sent = [{k: v for k, v in one.items() if k != "owned"} for one in sent]

    def grouped(lists):
        rows = zip(ids, lists, sent, strict=True)
        return pg.Group([pg.Member(one, names, **more) for one, names, more in rows])

    def plan(group):
        made = strategy.assign(Problem(group, cluster))
        made.owner  # noqa: B018 - an array made when first asked for
        return made

    answer = {}
    shared = lists_of(spec, separate=False)
    answer["first_nanos"], _ = timed(lambda: plan(grouped(shared)), ONCE)
    warm_up().join()  # as Java's compiler has warmed up
    answer["cpu_nanos"] = []
    answer["nanos"], made = timed(lambda: plan(grouped(shared)), limits, answer["cpu_nanos"])
    answer["peak"] = peak()
    fewer = (min(3, limits[0]), *limits[1:])
    held = grouped(shared)
    answer["built_cpu_nanos"] = []
    answer["built_nanos"], _ = timed(lambda: plan(held), fewer, answer["built_cpu_nanos"])
    if spec.get("brief"):
        return answer, made
    separate = lists_of(spec, separate=True)
    answer["separate_nanos"], _ = timed(lambda: plan(grouped(separate)), fewer)
    answer["dict_nanos"], _ = timed(made.to_dict, fewer)
    return answer, made


if __name__ == "__main__":
    main()
