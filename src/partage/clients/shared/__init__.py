"""The client-independent part of an assignor: bytes in, bytes out, no I/O.

Objects of clients, clocks and logs stay outside; measured loads are arguments.

    consumer   the member and the leader; start here
    joined     decodes the group's members, and removes false claims
    cluster    the leader's metadata
    loads      weights that a group learns
    options    keyword arguments as settings of a strategy
"""

from __future__ import annotations

from partage.clients.shared.cluster import ClusterView
from partage.clients.shared.consumer import Consumer, SyncGroupAssignments
from partage.clients.shared.joined import Joined
from partage.clients.shared.options import configure_strategy

__all__ = ["ClusterView", "Consumer", "Joined", "SyncGroupAssignments", "configure_strategy"]
