"""Exact detection of an endless loop: the state of a deterministic run repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["EndlessLoop", "RepeatedState", "loop_attributes"]

#: Partitions (or tasks) of a loop that a warning names.
_MOST_NAMED: Final = 5


class RepeatedState:
    """Detector of endless loops in an algorithm, by Brent's cycle detection on its states.

    A deterministic run over finitely many states either ends or returns to an earlier state. After
    passes 1, 2, 4, 8 and so on the detector replaces its stored state, and it compares each later
    state with that. Equality is exact, so a run that ends is never stopped, however long it is.
    Memory is one state. A cycle of length ``l`` that begins after pass ``m`` is found before pass
    ``3 * max(m, l) + 2``.

    Source: R. P. Brent, "An improved Monte Carlo factorization algorithm", BIT 20 (1980).

    Attributes:
        passes: number of states compared so far.
        length: passes from the stored state to the present one.

    >>> state, repeated = 0, RepeatedState()
    >>> while not repeated.matches(state):
    ...     state = (state + 3) % 7 if state else 3
    >>> repeated.length
    7
    """

    def __init__(self) -> None:
        self.passes = 0
        self.length = 0
        self._stored: object = None
        self._store_after = 1

    def matches(self, state: object) -> bool:
        """Return whether the algorithm is in an earlier state again, so that it never ends.

        Otherwise the state is stored after some passes, for later comparisons.

        Args:
            state: everything that decides how the run continues, as a value with exact equality.
        """
        self.passes += 1
        self.length += 1
        if self.passes > 1 and state == self._stored:
            return True
        if self.passes == self._store_after:
            self._stored, self.length = state, 0
            self._store_after *= 2
        return False


@dataclass(frozen=True, slots=True)
class EndlessLoop:
    """Endless loop of states that an imitated Kafka algorithm would repeat on this problem.

    Attributes:
        passes: passes until the state repeated.
        length: passes from a state to its repetition.
        moving: the names of the partitions (or tasks) that move in the loop, in a fixed order.
    """

    passes: int
    length: int
    moving: tuple[str, ...]

    def warning(self, algorithm: str) -> str:
        """Return the warning that describes the loop in which the algorithm never returns.

        >>> EndlessLoop(9, 2, ("t-0", "t-3")).warning("The assignor")[:76]
        'The assignor never returns on this problem: it moves t-0, t-3 in a loop of 2'
        """
        more = len(self.moving) - _MOST_NAMED
        named = ", ".join(self.moving[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        length = "1 pass" if self.length == 1 else f"{self.length} passes"
        return (
            f"{algorithm} never returns on this problem: it moves {named} in a loop of {length};"
            f" this is the best plan that it reached in {self.passes} passes"
        )


def loop_attributes(loop: EndlessLoop | None, algorithm: str) -> dict[str, Any]:
    """Return the attributes ``loop`` and ``warnings`` of a plan whose algorithm never returns.

    The dict is empty if the algorithm returns.

    Args:
        loop: the endless loop of the algorithm, None if it returns.
        algorithm: its name, with which the warning begins.
    """
    return {} if loop is None else {"loop": loop, "warnings": (loop.warning(algorithm),)}
