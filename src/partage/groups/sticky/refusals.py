"""Where Kafka's classes throw, and where their answer is no plan."""

from __future__ import annotations

from partage.errors import UnsupportedProblemError
from partage.model import Assignment

__all__ = ["JavaRefusal"]


class JavaRefusal(UnsupportedProblemError):  # noqa: N818 - what it is, not that it is one
    """The named Kafka class fails on this problem, so there is nothing to be exact to.

    Attributes:
        java_exception: simple name of what the class throws; None where it answers, but with
            a partition that two members own.
        assignment: that answer.
        max_generation: what the instance remembers after the failed call.

    >>> JavaRefusal("the group has no members", "ArithmeticException").java_exception
    'ArithmeticException'
    """

    def __init__(
        self, what: str, java_exception: str | None, assignment: Assignment | None = None
    ) -> None:
        super().__init__(what)
        self.java_exception = java_exception
        self.assignment = assignment
        self.max_generation = -1
