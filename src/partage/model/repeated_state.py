"""Exact detection of an endless loop: the state of a deterministic run repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["EndlessLoop", "RepeatedState", "endless_loop_fields"]

#: Partitions (or tasks) of a loop that a warning names.
_MOST_NAMED: Final = 5


class RepeatedState:
    """Detector of endless loops: it notices when a deterministic algorithm repeats a state.

    The method is Brent's cycle detection.

    A deterministic run over finitely many states either ends or returns to an earlier state. The
    detector stores the state after iterations 1, 2, 4, 8 and so on, and compares each later state
    with the stored one. Equality is exact, so a run that ends is never stopped, however long it is.
    A cycle of length ``l`` that begins after iteration ``m`` is found before iteration ``3 * max(m,
    l) + 2``.

    Source: R. P. Brent, "An improved Monte Carlo factorization algorithm", BIT 20 (1980).

    Attributes:
        passes: number of states compared so far.
        length: number of iterations from the stored state to the present one.

    >>> state, repeated = 0, RepeatedState()
    >>> while not repeated.is_repeated(state):
    ...     state = (state + 3) % 7 if state else 3
    >>> repeated.length
    7
    """

    def __init__(self) -> None:
        self.passes = 0
        self.length = 0
        self._stored: object = None
        self._store_after = 1

    def is_repeated(self, state: object) -> bool:
        """Return whether an algorithm has been in this state before, so that it never ends.

        Call it once per iteration of the algorithm.

        Args:
            state: everything that decides how the run continues, as a value with exact equality.
        """
        # Otherwise the state replaces the stored one after iterations 1, 2, 4, 8 and so on.
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
    """Description of an endless loop in one of Kafka's assignment algorithms.

    On some inputs, such an algorithm moves the same partitions back and forth and never returns.

    Attributes:
        passes: number of iterations until the repetition was found.
        length: number of iterations in the cycle.
        moving: the names of the partitions (or tasks) that move in the cycle, in a fixed order.
    """

    passes: int
    length: int
    moving: tuple[str, ...]

    def warning_text(self, algorithm: str) -> str:
        """Return a warning that names the algorithm and the partitions that it moves forever.

        ``algorithm`` is the subject of the sentence, such as "The assignor".

        >>> EndlessLoop(9, 2, ("t-0", "t-3")).warning_text("The assignor")[:76]
        'The assignor never returns on this problem: it moves t-0, t-3 in a loop of 2'
        """
        more = len(self.moving) - _MOST_NAMED
        named = ", ".join(self.moving[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        length = "1 pass" if self.length == 1 else f"{self.length} passes"
        return (
            f"{algorithm} never returns on this problem: it moves {named} in a loop of {length};"
            f" this is the best plan that it reached in {self.passes} passes"
        )


def endless_loop_fields(loop: EndlessLoop | None, algorithm: str) -> dict[str, Any]:
    """Return the plan's fields that report an endless loop of an assignment algorithm.

    These are ``loop`` and ``warnings``, as keyword arguments for `Plan`. The dict is empty if the
    algorithm ended normally.

    Args:
        loop: the endless loop, None if the algorithm ends.
        algorithm: the algorithm's name, with which the warning begins.
    """
    return {} if loop is None else {"loop": loop, "warnings": (loop.warning_text(algorithm),)}
