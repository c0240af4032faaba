"""Access to the client that calls an assignor, and errors for an assignor passed in a wrong form.

kafka-python 2.x and aiokafka call methods of a class without naming the consumer, and pass the
leader less than it received: subscriptions reduced to version 0, without owned partitions,
generation, rack and (aiokafka) instance id. A plan without those differs from Java's, and two
consumers that share a class would share a history. So an assignor inspects the calling frame: its
``self`` is the coordinator, and a local variable holds what the coordinator received.

If no such frame exists (a unit test calls the method, or a client has changed), `find_caller`
returns None and the assignor uses the arguments that it was given. Tests of every supported version
run on a real broker, static members included, and fail if that happens unnoticed.

Clients do not check ``partition_assignment_strategy``: a class in place of a list, ``assignor``
itself in place of what it returns, or a class made for another client end as a bare TypeError or
AttributeError deep in the client. Here each of them is an `InvalidConfigError` that names the form
that works.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from partage.errors import InvalidConfigError

__all__ = ["SETTING", "AssignorMeta", "Call", "called_by", "find_caller", "reject_uncalled"]

SETTING = "partition_assignment_strategy"

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: Calling frames in which `find_caller` looks for a coordinator.
_COORDINATOR_FRAMES = 4
#: Frames between a client's coordinator and the check of `called_by`.
_FRAMES = 5
#: Attributes that clients read from an assignor.
_ASKED = frozenset({"name", "metadata", "assign", "on_assignment", "supported_protocols"})


class Call(NamedTuple):
    """Method call on the Python call stack: the object whose method runs, and its local variables.

    An assignor finds its client in this way, because clients do not pass themselves to assignors.

    Attributes:
        owner: the object whose method runs (``self``).
        local: the method's local variables by name.
    """

    owner: Any
    local: Mapping[str, Any]


def find_caller(*kinds: type) -> Call | None:
    """Find the nearest method call on the Python call stack on an instance of certain classes.

    An assignor finds the client library's group coordinator in this way, because the library does
    not pass it as an argument.

    Args:
        kinds: the classes, for example a client library's group coordinator.

    Returns:
        The call, or None if there is none among the nearest frames.
    """
    # An assignor finds the group coordinator that called it in this way.
    # Frame 1 is the assignor's method; its caller is frame 2.
    frame = sys._getframe(2)
    for _ in range(_COORDINATOR_FRAMES):
        owner = frame.f_locals.get("self")
        if isinstance(owner, kinds):
            return Call(owner, frame.f_locals)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


class AssignorMeta(ABCMeta):
    """Metaclass of the assignor classes, which detects a class that the user passed without a list.

    The setting ``partition_assignment_strategy`` must be a list of classes. A client that gets a
    class instead iterates over it, and this raises an error with the reason.
    """

    #: The kind of error that the client passes on to its caller.
    misuse: type[InvalidConfigError] = InvalidConfigError

    def __iter__(cls) -> Iterator[Any]:
        """Raise an error: the user passed an assignor class where a list of classes is needed.

        A client library iterates over the value that should be the list.

        Raises:
            InvalidConfigError: always.
        """
        what = "must be a list of assignors: write [assignor(...)]"
        raise cls.misuse(SETTING, what, cls)


class _AssignorFactory:
    """Wrapper of the function ``assignor`` that raises a clear error if the user did not call it.

    For example, a user may pass ``[assignor]`` to a client library instead of
    ``[assignor("sticky")]``. The client then uses the function like an assignor class.
    """

    def __init__(self, make: Callable[..., Any], error: type[InvalidConfigError]) -> None:
        self._make, self._error = make, error
        update_wrapper(self, make)

    def __call__(self, *names: Any, **options: Any) -> Any:
        """Create the partition assignor class for the named strategy.

        It has the same arguments as the wrapped function ``assignor``.

        Raises:
            InvalidConfigError: no name is given, as when a client calls the factory itself.
        """
        if not names and "name" not in options:
            raise self._uncalled()
        return self._make(*names, **options)

    def __getattr__(self, name: str) -> Any:
        # A client reads these attributes if it takes the factory for a class.
        if name in _ASKED:
            raise self._uncalled()
        raise AttributeError(name)

    def __iter__(self) -> Iterator[Any]:
        # kafka-python iterates over what should be a list of assignor classes.
        raise self._uncalled()

    def _uncalled(self) -> InvalidConfigError:
        what = 'needs what assignor returns: write [assignor("sticky")], not [assignor]'
        return self._error(SETTING, what, self._make)


def reject_uncalled(
    error: type[InvalidConfigError],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate the function ``assignor`` so that it raises an error if the user forgot to call it.

    A user may pass ``[assignor]`` to a client library instead of ``[assignor("sticky")]``.
    ``error`` is the class of the error.
    """

    def decorated(make: Callable[_P, _R]) -> Callable[_P, _R]:
        return cast("Callable[_P, _R]", _AssignorFactory(make, error))

    return decorated


def called_by(package: str) -> bool:
    """Return whether the current function was called from code of a Python package.

    An assignor detects in this way that the wrong client library uses it. Only the five nearest
    frames of the call stack are checked.

    >>> called_by("kafka")
    False
    """
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
