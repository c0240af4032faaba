"""Progress of a long command whose stages have names of their own, as `telling` shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from partage.cli.telling import told

__all__ = ["working"]


@contextmanager
def working(
    stages: Mapping[str, str], *, quiet: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told (stage, done, total); ``stages`` has what each is called.

    >>> with working({}, quiet=True) as progress:
    ...     progress("count", 1, 2)
    """
    with told(stages, quiet=quiet) as moved:
        yield moved
