"""Validation of a problem: names, subscriptions and JSON values; errors have the value's path.

Equal topic lists of consecutive members are validated once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from partage.errors import InvalidConfigError, InvalidProblemError

__all__ = [
    "check_subscription",
    "escape_control_characters",
    "expect_kind",
    "expect_list",
    "expect_local",
    "expect_text",
    "name_list",
    "parse_json",
    "parse_problem",
    "reject_text",
    "required_field",
]

#: Longer lists are not cached, because an unused list would occupy memory.
_MAX_CACHED_NAMES = 100_000

#: The scheme of an address; a single letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")

#: The last validated list, its tuple, and the last other tuple that was equal to it. One variable
#: is read and written at a time, so a race between threads only validates a list again.
_last: tuple[list[str], tuple[str, ...], tuple[str, ...]] = ([], (), ())


def check_subscription(topics: Iterable[str], member_id: str) -> tuple[str, ...]:
    """Check that a consumer's subscription is a list of topic names, and return it as a tuple.

    Consecutive consumers with equal subscriptions share one tuple, and their list is checked once.

    Args:
        topics: the topic names.
        member_id: the consumer's member id, for error messages.

    Raises:
        InvalidProblemError: the value is not a list of names; the error has its path.

    >>> first = check_subscription(["a", "b"], "c1")
    >>> first, check_subscription(["a", "b"], "c2") is first
    (('a', 'b'), True)
    """
    # Equal lists of consecutive members share one tuple and are checked once.
    global _last  # noqa: PLW0603 - a cache; the result does not depend on it
    known, shared, equal = _last
    if topics is shared or topics is equal:
        return shared
    if type(topics) is list:
        # `_equal` inlined: it saves a call for each of thousands of members.
        try:
            if topics == known:
                if topics and topics[0] is not known[0] and set(map(type, topics)) <= {str}:
                    # The next list probably has the same strings, which compare 30 times as fast.
                    _last = (topics[:], shared, equal)
                return shared
        except Exception:  # noqa: BLE001, S110 - the items are validated below
            pass
    elif isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        path = f"members.{member_id}.topics"
        raise InvalidProblemError("must be a list of names", path=path, value=topics)
    names = topics if type(topics) is list else list(topics)
    if names is not topics and _equal(names, known):
        if type(topics) is tuple:
            _last = (known, shared, topics)
        return shared
    # The cache only holds lists of strings, so an equal list is valid, too.
    if not set(map(type, names)) <= {str}:
        for i, topic in enumerate(names):
            expect_text(topic, f"members.{member_id}.topics[{i}]")
    made = topics if type(topics) is tuple else tuple(names)
    if len(made) <= _MAX_CACHED_NAMES:
        _last = (list(made), made, made)
    return made


def _equal(names: list[str], known: list[str]) -> bool:
    try:
        return names == known
    except Exception:  # noqa: BLE001 - unchecked items may be arrays or anything else
        return False


def expect_text(value: object, path: str) -> str:
    """Check that a value of JSON input is a string, and return it.

    It validates fields of JSON input, and the error names the field.

    Args:
        value: the value to check.
        path: place of the value in the input, for the error message.

    Raises:
        InvalidProblemError: the value is not a string.
    """
    if not isinstance(value, str):
        raise InvalidProblemError("must be text", path=path, value=value)
    return value


def name_list(names: object, path: str) -> tuple[str, ...]:
    """Convert a list of names, or a comma-separated string, to a tuple of names.

    Kafka accepts both forms for ``partition.assignment.strategy``. ``path`` is the name of the
    argument in error messages.

    Raises:
        InvalidProblemError: the value is neither, or a name is empty or not a string.

    >>> name_list("range, sticky", "strategies"), name_list(["range"], "strategies")
    (('range', 'sticky'), ('range',))
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    if isinstance(names, (bytes, Mapping)) or not isinstance(names, Iterable):
        raise InvalidProblemError("must be a list of names", path=path, value=names)
    found = tuple(expect_text(name, f"{path}[{i}]") for i, name in enumerate(names))
    if not all(name.strip() for name in found):
        raise InvalidProblemError("has an empty name", path=path, value=found)
    return found


def escape_control_characters(line: str) -> str:
    r"""Escape control characters in a line of text, so that terminals print it safely.

    Names in a recorded log may contain escape sequences that would change the terminal.

    >>> escape_control_characters("a\x1b[31m: t 0")
    'a\\x1b[31m: t 0'
    """
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def reject_text(value: object, setting: str, kind: str = "names") -> None:
    """Raise an error if an argument is a single string where a list is expected.

    Python would iterate over the characters of the string.

    Args:
        value: the argument to check.
        setting: name of the argument, for the message.
        kind: noun for the items of the list, for the message.

    Raises:
        InvalidConfigError: the value is a string; the error names the argument.

    >>> reject_text("t", "topics")
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting topics: must be a list of names: ['t'], got 't'
    """
    if isinstance(value, str | bytes):
        raise InvalidConfigError(setting, f"must be a list of {kind}: [{value!r}]", value)


def expect_local(path: Path | str, setting: str) -> None:
    """Raise an error if an output path is a URL, such as ``s3a://bucket``, instead of a local path.

    Output is written with the local file system only.

    Args:
        path: an output path; `pathlib.Path` writes ``s3a://bucket`` with one slash.
        setting: name of the option or argument, for the message.

    Raises:
        InvalidConfigError: the path begins with a scheme, ``s3a:/`` for example.

    >>> expect_local("run", "--out")
    """
    match = _SCHEME.match(str(path))
    if match is None:
        return
    is_file = match[1].lower() == "file"
    what = "must be a local folder or file: " + (
        "give the path without file://"
        if is_file
        else "Partage writes with the file system of this machine and cannot write to "
        f"{match[1]} addresses yet; write locally and copy it there"
    )
    slashes = ":///" if is_file else "://"
    shown = str(path) if "//" in str(path) else str(path).replace(":/", slashes, 1)
    raise InvalidConfigError(setting, what, shown)


def expect_kind(value: object, kind: type, path: str) -> None:
    """Raise an error if an argument is not an instance of the expected class.

    The message names the argument and both classes.

    Args:
        value: the argument to check.
        kind: the class that it must have.
        path: the argument's name in the error message.

    Raises:
        InvalidProblemError: the value has another type.

    >>> expect_kind(dict, dict, "group")
    Traceback (most recent call last):
    partage.errors.InvalidProblemError: group: must be a dict, not the class dict, got ...
    """
    if not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else (
            f"a {type(value).__name__}"
        )  # fmt: skip
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        what = f"must be {article} {kind.__name__}, not {got}"
        raise InvalidProblemError(what, path=path, value=value)


def parse_problem(problem: object) -> Mapping[str, Any]:
    """Parse a JSON object that describes a consumer group and a cluster.

    The description may be JSON text, the path of a JSON file, or a parsed object.

    Args:
        problem: JSON text, the path of a file, or the parsed object, which is returned as it is.
    """
    if isinstance(problem, PathLike):
        problem = _read(Path(problem))
    if isinstance(problem, (str, bytes)):
        try:
            problem = parse_json(problem)
        except (ValueError, RecursionError) as e:
            what = f"not JSON ({e}); give JSON text, or a pathlib.Path to read"
            raise InvalidProblemError(what, path="problem", value=problem) from None
    if not isinstance(problem, Mapping):
        what = "must be an object with topics and members"
        raise InvalidProblemError(what, path="problem", value=problem)
    return problem


def parse_json(text: str | bytes) -> Any:
    """Parse JSON, and raise an error if an object has the same key twice.

    Python's own parser would silently use the last value.

    Raises:
        InvalidProblemError: a key is duplicated.
        ValueError, RecursionError: the text is not JSON.
    """
    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # add returns None
        raise InvalidProblemError("a key is there twice", path="problem", value=twice)
    return made


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        what = f"cannot be read ({e.strerror})"
        raise InvalidProblemError(what, path="problem", value=str(path)) from None


def required_field(problem: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field of a JSON object, or raise an error if it is missing.

    The error is an `InvalidProblemError` that names the field.

    Args:
        problem: the JSON object.
        name: name of the field.
    """
    if name not in problem:
        raise InvalidProblemError("is missing", path=name, value=None)
    return problem[name]


def expect_list(value: object, path: str, expected: str) -> Sequence[Any]:
    """Check that a value of JSON input is a list, and return it.

    It validates fields of JSON input, and the error names the field.

    Args:
        value: the value to check.
        path: place of the value in the JSON, for the error message.
        expected: what the value must be, for the error message.

    Raises:
        InvalidProblemError: the value is not a list.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise InvalidProblemError(f"must be {expected}", path=path, value=value)
    return value
