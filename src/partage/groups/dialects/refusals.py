"""Where a peer's assignor fails, and its consumer with it."""

from __future__ import annotations

from partage.errors import UnsupportedProblemError

__all__ = ["PeerRefusal"]


class PeerRefusal(UnsupportedProblemError):  # noqa: N818 - what it is, not that it is one
    """The named class raises, or never ends, on this problem: there is nothing to be exact to.

    Attributes:
        peer_exception: name of what it raises; ``"hangs"`` where it never comes back.

    >>> PeerRefusal("the ring has no members", "TypeError").peer_exception
    'TypeError'
    """

    def __init__(self, what: str, peer_exception: str) -> None:
        super().__init__(what)
        self.peer_exception = peer_exception
