"""A member's list of topic names, checked; the same list from member after member only once."""

from __future__ import annotations

from collections.abc import Iterable

from partage.errors import InvalidProblemError

__all__ = ["expect_kind", "expect_text", "name_list", "subscription"]

#: Longer lists are not remembered: what nobody uses any more shall not keep much memory.
_LONGEST_REMEMBERED = 100_000

#: The list that was checked last, and its tuple. One name is read and written at a time, so
#: threads at worst check a list again.
_last: tuple[list[str], tuple[str, ...]] = ([], ())


def subscription(topics: Iterable[str], member_id: str) -> tuple[str, ...]:
    """The names as a tuple; equal lists one after the other share one tuple.

    A group's members mostly subscribe alike. Comparing two lists of the same names is a
    matter of pointers, many times cheaper than to look at each name's type.

    Raises:
        InvalidProblemError: no list of names; tells the member and the place.

    >>> first = subscription(["a", "b"], "c1")
    >>> first, subscription(["a", "b"], "c2") is first
    (('a', 'b'), True)
    """
    global _last  # noqa: PLW0603 - see its comment; the answer does not depend on it
    known, shared = _last
    if topics is shared:
        return shared
    if type(topics) is list:
        # A call for each of thousands of members is worth saving: `_equal` once more.
        try:
            if topics == known:
                return shared
        except Exception:  # noqa: BLE001, S110 - told of below, where its items are looked at
            pass
    elif isinstance(topics, (str, bytes)):
        path = f"members.{member_id}.topics"
        raise InvalidProblemError("must be a list of names", path=path, value=topics)
    names = topics if type(topics) is list else list(topics)
    if names is not topics and _equal(names, known):
        return shared
    # Only what is text throughout is remembered, so what equals it is text too.
    if not set(map(type, names)) <= {str}:
        for i, topic in enumerate(names):
            expect_text(topic, f"members.{member_id}.topics[{i}]")
    made = topics if type(topics) is tuple else tuple(names)
    if len(made) <= _LONGEST_REMEMBERED:
        _last = (list(made), made)
    return made


def _equal(names: list[str], known: list[str]) -> bool:
    try:
        return names == known
    except Exception:  # noqa: BLE001 - what is in the list is still unchecked: arrays, anything
        return False


def expect_text(value: object, path: str) -> str:
    """Return a value that must be text.

    Raises:
        InvalidProblemError: it is not.
    """
    if not isinstance(value, str):
        raise InvalidProblemError("must be text", path=path, value=value)
    return value


def name_list(names: object, path: str) -> tuple[str, ...]:
    """Return names from a list, or from a text with commas as in a Kafka configuration.

    Raises:
        InvalidProblemError: it is neither, or a name is empty or no text.

    >>> name_list("range, sticky", "strategies"), name_list(["range"], "strategies")
    (('range', 'sticky'), ('range',))
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise InvalidProblemError("must be a list of names", path=path, value=names)
    found = tuple(expect_text(name, f"{path}[{i}]") for i, name in enumerate(names))
    if not all(name.strip() for name in found):
        raise InvalidProblemError("has an empty name", path=path, value=found)
    return found


def expect_kind(value: object, kind: type, path: str) -> None:
    """Check the class of a value that a caller may have confused with another argument.

    Raises:
        InvalidProblemError: it is no instance of the class.

    >>> expect_kind(dict, dict, "group")
    Traceback (most recent call last):
    partage.errors.InvalidProblemError: group: must be a dict, not the class dict, got ...
    """
    if not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else (
            f"a {type(value).__name__}"
        )  # fmt: skip
        raise InvalidProblemError(f"must be a {kind.__name__}, not {got}", path=path, value=value)
