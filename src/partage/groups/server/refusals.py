"""Where the coordinator's classes throw."""

from __future__ import annotations

from partage.errors import UnsupportedProblemError

__all__ = ["CoordinatorRefusal"]


class CoordinatorRefusal(UnsupportedProblemError):  # noqa: N818 - the base has the suffix
    """The named class of the coordinator fails on this problem.

    Attributes:
        java_exception: simple name of what the class throws.

    >>> CoordinatorRefusal("topic t is unknown").java_exception
    'PartitionAssignorException'
    """

    def __init__(self, what: str, java_exception: str = "PartitionAssignorException") -> None:
        super().__init__(what)
        self.java_exception = java_exception
