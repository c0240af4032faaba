"""The application played on a clock, under the protocol that its assignor belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.coordinated import Coordinated
from partage.simulation.streams.led import Led
from partage.simulation.streams.played import Played
from partage.simulation.streams.told import Told
from partage.streams import TaskAssignor
from partage.streams.kip1071_sticky import ServerSticky

__all__ = ["play"]


def play(
    application: SimulatedApplication,
    assignor: TaskAssignor | ServerSticky,
    told: Sequence[Told] = (),
) -> Played:
    """Play an application under an assignor.

    In a classic group a member that is gone without a word is missed one session timeout later,
    and a rebalance that begins before that waits for it; members keep what they have meanwhile.
    A task that moves is given up in one rebalance and taken over in the next. In a streams group
    (`ServerSticky`, KIP-1071) tasks change hands one by one with the members' heartbeats.

    Args:
        application: with its trace of events.
        assignor: of the group's leader, or of its coordinator.
        told: state as a real leader saw it at its first rebalance, its second and so on; the
            model's own counts after the last one. A coordinator looks at no state.

    Raises:
        InvalidTopologyError: as `partage.streams.rebalance`.
        InvalidConfigError, UnsupportedProblemError: the assignor refuses the application.

    >>> from partage.simulation.streams.reading import read
    >>> app = read({"seconds": 60, "subtopologies": [{"sources": {"in": 2}}],
    ...             "clients": {"a": {}, "b": {}}})
    >>> from partage.streams import HighAvailability
    >>> [(one.client, str(one.task), one.to_ms) for one in play(app, HighAvailability()).spans]
    [('a', '0_0', 60000), ('b', '0_1', 60000)]
    """
    if isinstance(assignor, ServerSticky):
        return Coordinated(application, assignor).run()
    return Led(application, assignor, told).run()
