"""Every error that Partage raises, in one tree.

    PartageError                     the base: catch this one
    ├── InvalidProblemError          a problem file or value is malformed (path, value)
    ├── UnknownStrategyError         no such strategy in the registry
    ├── UnknownPartitionerError      no such partitioner in the registry
    ├── InvalidKeysError             keys that no partitioner can take (where, value)
    ├── UnsupportedProblemError      a sound problem that this strategy refuses
    ├── InvalidPlacementError        replicas cannot be placed as asked (java_exception)
    ├── NoFeasiblePlanError          no plan keeps every rule: which one is in the way (constraint)
    ├── InvalidTopologyError         a Streams topology that cannot become tasks (topics, code)
    ├── InvalidConfigError           a setting of a strategy or of a run is wrong
    ├── InconsistentGroupProtocolError   a member cannot join with these protocols
    ├── WireFormatError              bytes that are not what they claim to be
    ├── InvalidCaptureError          a capture folder lacks what a run needs
    ├── ClusterUnreachableError      no broker answers, or it refuses (bootstrap, reason)
    ├── NotAuthorizedError           the account may not read what the command needs
    ├── PlanInvariantError           a plan broke the rules of the judge
    ├── CertificateError             a claimed optimum is not proven by its certificate
    ├── ProblemTooLargeError         exact answer refused: it would take too long
    ├── AssignorFailedError          a strategy raised inside a living consumer (group, generation)
    ├── AccountingError              a run lost or doubled records: its result is not published
    ├── SparkFailedError             a process of Spark ended in the middle of a run
    ├── MissingExtraError            an optional library is not installed
    └── MissingJavaError             Spark needs a Java that is not there

Messages say what is wrong, which one, where, and what to do. The pieces are
attributes too, so that a program need not parse a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AccountingError",
    "AssignorFailedError",
    "CertificateError",
    "ClusterUnreachableError",
    "InconsistentGroupProtocolError",
    "InvalidCaptureError",
    "InvalidConfigError",
    "InvalidKeysError",
    "InvalidPlacementError",
    "InvalidProblemError",
    "InvalidTopologyError",
    "MissingExtraError",
    "MissingJavaError",
    "NoFeasiblePlanError",
    "NotAuthorizedError",
    "PartageError",
    "PlanInvariantError",
    "ProblemTooLargeError",
    "SparkFailedError",
    "UnknownPartitionerError",
    "UnknownStrategyError",
    "UnsupportedProblemError",
    "WireFormatError",
]

_LONGEST_VALUE_SHOWN = 80


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of 5,000 digits, lists a thousand deep
        text = f"a value of type {type(value).__name__} too large to show"
    return text if len(text) <= _LONGEST_VALUE_SHOWN else text[:_LONGEST_VALUE_SHOWN] + "…"


class PartageError(Exception):
    """Base of all errors of Partage. They can be pickled: a worker's error reaches its caller."""

    def __reduce__(self) -> tuple[object, ...]:
        # Python's own way calls the class with ``args``, which are not what ours take.
        pieces = dict(vars(self))
        for kind in type(self).__mro__:
            names = kind.__dict__.get("__slots__", ())
            pieces |= {name: getattr(self, name) for name in names if hasattr(self, name)}
        return _revived, (type(self), self.args, pieces)


def _revived(
    kind: type[PartageError], args: tuple[object, ...], pieces: dict[str, object]
) -> PartageError:
    error = kind.__new__(kind, *args)
    for name, value in pieces.items():
        setattr(error, name, value)
    return error


class InvalidProblemError(PartageError):
    """A cluster or a group is malformed: says where, and which value.

    >>> str(InvalidProblemError("must be an int >= 0", path="topics.orders", value=-1))
    'topics.orders: must be an int >= 0, got -1'
    >>> str(InvalidProblemError("is missing", path="members"))
    'members: is missing'
    """

    def __init__(self, what: str, *, path: str, value: object = None) -> None:
        got = "" if what == "is missing" else f", got {_shown(value)}"
        super().__init__(f"{path}: {what}{got}")
        self.what = what
        self.path = path
        self.value = value


class UnknownStrategyError(PartageError):
    """The registry has no strategy of that name.

    >>> str(UnknownStrategyError("rnage", known=["range", "fair"], close=["range"]))
    "no strategy named 'rnage'; did you mean range? known: range, fair"
    """

    def __init__(self, name: str, *, known: Sequence[str], close: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        if name.startswith("streams:") and not any(one.startswith("streams:") for one in known):
            hint = "partage.streams places the tasks of Kafka Streams, this places partitions; "
        if name.rpartition(".")[2] == "StreamsPartitionAssignor":
            hint = (
                "it assigns the tasks of Kafka Streams: run partage streams APP.json --decide"
                " (docs/streams_decision.md); this assigns partitions; "
            )
        super().__init__(f"no strategy named {name!r}; {hint}known: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)
        self.close = tuple(close)


class UnknownPartitionerError(PartageError):
    """The registry has no partitioner of that name.

    >>> str(UnknownPartitionerError("mumur2", known=["murmur2", "java"], close=["murmur2"]))
    "no partitioner named 'mumur2'; did you mean murmur2? known: murmur2, java"
    """

    def __init__(self, name: str, *, known: Sequence[str], close: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        super().__init__(f"no partitioner named {name!r}; {hint}known: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)
        self.close = tuple(close)


class InvalidKeysError(PartageError):
    """Keys that no partitioner can take: says which, and what to do.

    >>> str(InvalidKeysError("is an int: serialise it", where="keys[3]", value=7))
    'keys[3] is an int: serialise it, got 7'
    """

    def __init__(self, what: str, *, where: str, value: object = None) -> None:
        got = "" if value is None else f", got {_shown(value)}"
        super().__init__(f"{where} {what}{got}")
        self.what = what
        self.where = where
        self.value = value


class UnsupportedProblemError(PartageError):
    """The problem is sound, but this strategy refuses it, as its Kafka class does."""


class InvalidPlacementError(PartageError):
    """Replicas cannot be placed as asked; ``java_exception`` is what Kafka throws.

    >>> InvalidPlacementError("too few", java_exception="InvalidPartitionsException").java_exception
    'InvalidPartitionsException'
    """

    def __init__(self, what: str, *, java_exception: str) -> None:
        super().__init__(what)
        self.java_exception = java_exception


class NoFeasiblePlanError(PartageError):
    """No plan keeps every rule; ``constraint`` names the one that makes it so.

    >>> str(NoFeasiblePlanError("capacity", "9 bytes are to be held, brokers have room for 8"))
    'no feasible plan (capacity): 9 bytes are to be held, brokers have room for 8'
    """

    def __init__(self, constraint: str, what: str) -> None:
        super().__init__(f"no feasible plan ({constraint}): {what}")
        self.constraint = constraint
        self.what = what


class InvalidTopologyError(PartageError):
    """A Streams topology does not fit its topics.

    ``topics`` are those to look at; ``java_exception`` is what Kafka Streams throws, and
    ``code`` the assignment error that its leader sends to all members (1: a source topic is
    missing, 3: any other), None where the exception ends the leader itself.

    >>> str(InvalidTopologyError("are missing: create them", topics=["b", "a"]))
    'topics a, b: are missing: create them'
    """

    def __init__(
        self,
        what: str,
        *,
        topics: Sequence[str],
        java_exception: str = "TaskAssignmentException",
        code: int | None = None,
    ) -> None:
        self.topics = tuple(sorted(topics))
        many = "topic" if len(self.topics) == 1 else "topics"
        super().__init__(f"{many} {', '.join(self.topics)}: {what}")
        self.what = what
        self.java_exception = java_exception
        self.code = code


class InvalidConfigError(PartageError):
    """A setting has a wrong type or value.

    >>> str(InvalidConfigError("priority", "must be an int32", "high"))
    "setting priority: must be an int32, got 'high'"
    """

    def __init__(self, setting: str, what: str, value: object) -> None:
        # What the command line calls by name needs no other word.
        kind = "" if setting.startswith("--") or setting == "INPUT" else "setting "
        super().__init__(f"{kind}{setting}: {what}, got {_shown(value)}")
        self.setting = setting
        self.what = what
        self.value = value


class InconsistentGroupProtocolError(PartageError):
    """The joining member is refused; the group stays as it was (Kafka error 23)."""


class WireFormatError(PartageError):
    """Bytes are not the message they claim to be.

    ``offset`` counts bytes from the start of the payload; ``field`` is the dotted
    path of the field being read; ``version`` the schema version, -1 if not known yet.

    >>> str(WireFormatError("2 bytes needed, 1 left", offset=4, field="value.members", version=3))
    'value.members (version 3) at byte 4: 2 bytes needed, 1 left'
    """

    # A damaged log has millions of these: no dict, and no text until somebody reads it.
    __slots__ = ("field", "offset", "version", "what")

    def __init__(self, what: str, *, offset: int, field: str, version: int = -1) -> None:
        super().__init__()
        self.what = what
        self.offset = offset
        self.field = field
        self.version = version

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        of = f" (version {self.version})" if self.version != -1 else ""
        return f"{self.field}{of} at byte {self.offset}: {self.what}"


class InvalidCaptureError(PartageError):
    """A capture cannot be read: says which file, which column, and what to do."""


class ClusterUnreachableError(PartageError):
    """No broker answers, or none lets us in: says where, why, and what to look at.

    >>> str(ClusterUnreachableError("h:1", "refused", "look at host and port"))
    'no cluster at h:1 (refused): look at host and port'
    """

    def __init__(self, bootstrap: str, reason: str, hint: str) -> None:
        super().__init__(f"no cluster at {bootstrap} ({reason}): {hint}")
        self.bootstrap = bootstrap
        self.reason = reason


class NotAuthorizedError(PartageError):
    """The account may not do what is asked: says what an administrator has to allow.

    >>> str(NotAuthorizedError("topic __consumer_offsets", "READ and DESCRIBE"))
    'not authorized for topic __consumer_offsets: the account needs READ and DESCRIBE'
    """

    def __init__(self, resource: str, operations: str) -> None:
        super().__init__(f"not authorized for {resource}: the account needs {operations}")
        self.resource = resource
        self.operations = operations


class PlanInvariantError(PartageError):
    """A plan broke the rules of the judge; ``breaches`` has every one of them."""

    def __init__(self, breaches: Sequence[object]) -> None:
        shown = "; ".join(str(b) for b in breaches[:5])
        more = f"; and {len(breaches) - 5} more" if len(breaches) > 5 else ""
        super().__init__(f"{len(breaches)} breaches: {shown}{more}")
        self.breaches = tuple(breaches)


class CertificateError(PartageError):
    """A certificate does not prove the claim that it came with."""


class ProblemTooLargeError(PartageError):
    """The exact answer would take too long, and Partage does not guess."""


class MissingExtraError(PartageError):
    """An optional library is needed here.

    >>> str(MissingExtraError("pyspark", extra="spark"))
    "pyspark is not installed: pip install 'partage[spark]'"
    """

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'partage[{extra}]'")
        self.library = library
        self.extra = extra


class MissingJavaError(PartageError):
    """Spark needs Java, and it is missing, too old or cannot be started: says what to install."""


class SparkFailedError(PartageError):
    """Spark's Java process or one of its workers ended in the middle of a run: run again."""


class AssignorFailedError(PartageError):
    """A strategy raised while it led a living group: says which, where and when.

    >>> str(AssignorFailedError("sticky", "billing", 7, ValueError("no")))
    'strategy sticky failed in group billing, generation 7: ValueError: no'
    """

    def __init__(self, strategy: str, group: str, generation: int, reason: Exception) -> None:
        # Bound in length: whatever foreign code says ends up in logs.
        why = f"{type(reason).__name__}: {reason}"[:500]
        when = f"generation {generation}" if generation >= 0 else "generation unknown"
        super().__init__(f"strategy {strategy} failed in group {group}, {when}: {why}")
        self.strategy = strategy
        self.group = group
        self.generation = generation


class AccountingError(PartageError):
    """Records read are not records decoded plus bad ones: a mistake of ours, never published."""
