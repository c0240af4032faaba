"""What the page's words mean: shown where a word is used, and all together at its end."""

from __future__ import annotations

__all__ = ["GLOSSARY"]

#: Key -> (word, meaning). Keys are places on the page.
GLOSSARY: dict[str, tuple[str, str]] = {
    "lost": (
        "Time lost",
        "Partition-time in which nobody read because of rebalances: one partition unread for "
        "one minute is one partition-minute (p·min). Bounded by the members' own commits: "
        "reading may "
        "have gone on after the last commit before a rebalance, and begun again before the first "
        "one after it. So it is a range; the truth lies between its ends.",
    ),
    "saved": (
        "Would have saved",
        "In tables of policies: time lost as recorded minus time lost under the policy, over the "
        "same causes. In advice and best settings: time lost under own (the group simulated with "
        "its present settings) minus time lost under the policy, since both have the simulation's "
        "error. Both ends of the range assume that a rebalance takes as long as the recorded one.",
    ),
    "policy": (
        "Policy",
        "A protocol and a strategy: eager (everybody gives everything up first), cooperative "
        "(KIP-429: only what moves stops, in two steps), consumer (KIP-848: the broker decides). "
        "+static gives every member a group.instance.id; own is the group as it was run, "
        "simulated: how far it is from the record tells how far to trust the simulation.",
    ),
    "reading": (
        "Own past, recorded past",
        "Own past: the recorded causes drive a simulation in which the policy has its own history "
        "and makes its own follow-ups. Recorded past: each rebalance by itself, from what the "
        "record says was owned before it.",
    ),
    "rebalance": (
        "Rebalance",
        "A generation of a classic group, or an epoch of a consumer, share or streams group: "
        "members and partitions are matched anew.",
    ),
    "cause": (
        "Cause",
        "Why a rebalance happened. Recorded where a record says so; otherwise inferred from two "
        "records and from the silence of commits.",
    ),
    "moved": (
        "Moved",
        "Partitions that one living member had and another one then got. First assignments do not "
        "count, nor what a member had that left: somebody had to get it.",
    ),
    "avoidable": (
        "Avoidable",
        "Moves that no plan needs which is at least as even. The fewest moves are found by "
        "minimum-cost flow and proven by a certificate that an independent judge verifies.",
    ),
    "even": (
        "Most even",
        "Share of rebalances with the smallest spread (fullest minus emptiest member) that any "
        "plan has for them; proven by maximum flow.",
    ),
    "idle": (
        "Idle",
        "Members without any partition that could have had one, summed over rebalances.",
    ),
    "reread": (
        "Read twice",
        "Records read again after a rebalance, because the new owner began where the last commit "
        "was. At least and at most.",
    ),
    "racks": (
        "Rack mismatches",
        "Partitions owned by a member on whose rack none of their replicas is: each fetch crosses "
        "racks. Members without a rack do not count.",
    ),
    "storm": (
        "Storm",
        "Three or more rebalances of a group, each with a cause of its own, within the longest "
        "session timeout of its members. The first one's cause is its trigger.",
    ),
    "coverage": (
        "Coverage",
        "A compacted log keeps only a group's newest generation. Numbers of generations tell how "
        "many there were; this is the share that is still in the log.",
    ),
    "agreement": (
        "Agreement",
        "Where all members are Java clients, Partage's strategy must give the very plan that the "
        "log has, from the subscriptions as they were sent. It is the proof that the log was "
        "understood.",
    ),
    "compared": (
        "Not comparable (*)",
        "The policy refused or failed some rebalances, or left partitions without an owner: small "
        "sums are no merit then.",
    ),
}
