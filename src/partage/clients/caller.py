"""Who calls an assignor: the one thing that clients do not say and that must be known.

kafka-python 2.x and aiokafka call methods of a class, without a word on which consumer asks, and
hand the leader less than it received: subscriptions cut down to version 0, without owned
partitions, generation, rack and (aiokafka) instance id. Without those a plan is not what Java
would give, and two consumers that share a class would share a history. So an assignor looks at
the frame that calls it: there is the coordinator as ``self``, and what it received as a local.

Where no such frame is found (a unit test calls the method, a client has changed) the answer is
None, and the caller makes do with what it was given. Tests of every supported version run on
a real broker, static members included, and fail if that happens unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Call", "caller"]

_FRAMES = 4


class Call(NamedTuple):
    """The method that calls: the object that it belongs to, and its local variables."""

    owner: Any
    local: Mapping[str, Any]


def caller(*kinds: type) -> Call | None:
    """The nearest of the next few frames that is a method of one of ``kinds``."""
    # The frame of the assignor's method is 1; what calls it starts at 2.
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        owner = frame.f_locals.get("self")
        if isinstance(owner, kinds):
            return Call(owner, frame.f_locals)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None
