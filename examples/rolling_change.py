"""From range to sticky without a stop: two rolling restarts, and the one that fails.

Run: python examples/rolling_change.py
"""

from __future__ import annotations

from partage.errors import InconsistentGroupProtocolError
from partage.groups.negotiation import Negotiation


def main() -> None:
    """What the coordinator answers to each restarted member."""
    members = ("c1", "c2", "c3")
    group = Negotiation()
    for member in members:
        group = group.join(member, ["range"])
    try:
        group.leave("c1").join("c1", ["sticky"])
    except InconsistentGroupProtocolError as e:
        print("straight to sticky:", e)
    for supported in (["sticky", "range"], ["sticky"]):
        for member in members:
            group = group.leave(member).join(member, supported)
            print(f"{member} restarts with {supported}: the group speaks {group.selected}")


if __name__ == "__main__":
    main()
