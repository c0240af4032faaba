"""What a consumer's assignor does, whichever client runs it: bytes in, bytes out, no I/O.

The rest of the world (clients' objects, clocks, logs) stays outside; a clock reading or a
measured load that is needed comes in as a value.
"""

from __future__ import annotations

from partage.clients.shared.cluster import ClusterView
from partage.clients.shared.consumer import Consumer, Joined, LeaderDecision
from partage.clients.shared.options import configured

__all__ = ["ClusterView", "Consumer", "Joined", "LeaderDecision", "configured"]
