"""Every error that Partage raises, in one tree.

    PartageError                     the base: catch this one
    ├── InvalidProblemError          a problem file or value is malformed (path, value)
    ├── UnknownStrategyError         no such strategy in the registry
    ├── UnknownPartitionerError      no such partitioner in the registry
    ├── InvalidKeysError             keys that no partitioner accepts (where, value)
    ├── UnsupportedProblemError      a valid problem to which the strategy is not applicable
    ├── PluginFailedError            a plug-in strategy raised, or returned no plan (reason)
    ├── InvalidPlacementError        replicas cannot be placed as requested (java_exception)
    ├── NoFeasiblePlanError          no plan satisfies all constraints (constraint)
    ├── InvalidTopologyError         a Streams topology that does not fit its topics (topics, code)
    ├── InvalidConfigError           a setting of a strategy or of a run is wrong
    ├── InconsistentGroupProtocolError   a member cannot join with these protocols
    ├── WireFormatError              malformed bytes (offset, field, version)
    ├── InvalidCaptureError          a capture or run that cannot be read
    ├── ClusterUnreachableError      no broker answers, or it rejects the client (bootstrap, reason)
    ├── NotAuthorizedError           the account lacks a permission
    ├── PlanInvariantError           a plan breaks a rule of the judge (breaches)
    ├── CertificateError             a certificate does not prove its claim
    ├── ProblemTooLargeError         an exact result would take too long
    ├── AssignorFailedError          a strategy raised in a live consumer (group, generation)
    ├── AccountingError              a run lost or duplicated records and is not published
    ├── SparkFailedError             a Spark process ended during a run
    ├── MissingExtraError            an optional library is not installed
    └── MissingJavaError             Spark has no usable Java

Messages say what is wrong, where, and what to do. Their parts are also attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    "PluginFailedError",
    "ProblemTooLargeError",
    "SparkFailedError",
    "UnknownPartitionerError",
    "UnknownStrategyError",
    "UnsupportedProblemError",
    "WireFormatError",
]

_LONGEST_VALUE_SHOWN = 80
#: Names of settings whose values no message shows: a mapping may be a whole client's configuration.
_SECRET = re.compile(r"secret|password|token|jaas|access[.]?key|[.]key$", re.IGNORECASE)


def hide_secrets(settings: Mapping[Any, object]) -> dict[Any, object]:
    """Return a copy of a configuration in which secret values are replaced by ``[hidden]``.

    A setting counts as secret by its name, for example if the name contains ``password`` or
    ``token``. Error messages show configurations in this form.

    >>> hide_secrets({"sasl.password": "x", "client.id": "me"})
    {'sasl.password': '[hidden]', 'client.id': 'me'}
    """
    return {k: "[hidden]" if _SECRET.search(str(k)) else v for k, v in settings.items()}


def _shown(value: object) -> str:
    try:
        text = repr(hide_secrets(value) if isinstance(value, Mapping) else value)
    except (ValueError, RecursionError):  # an int of 5,000 digits, lists a thousand deep
        text = f"a value of type {type(value).__name__} too large to show"
    return text if len(text) <= _LONGEST_VALUE_SHOWN else text[:_LONGEST_VALUE_SHOWN] + "…"


class PartageError(Exception):
    """Base class of all errors that Partage raises.

    Catch it to handle any of them. Instances can be pickled, so Spark workers can send them to the
    driver.
    """

    # Spark workers send pickled errors to the driver.

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
    """Raised if the description of a consumer group or of a cluster is malformed.

    The attribute ``path`` is the invalid field, such as ``topics.orders``, and ``value`` its value.

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
    """Raised if no assignment strategy has the given name.

    The attribute ``known`` lists all strategies, and ``close`` those with a similar name.

    >>> str(UnknownStrategyError("rnage", known=["range", "fair"], close=["range"]))
    "no strategy named 'rnage'; did you mean range? known: range, fair"
    >>> str(UnknownStrategyError("my_package:MyStrategy", known=["range"])).partition("; ")[2]
    'only assign and compare import a class: register it (docs/plugins.md); known: range'
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
        if not close and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Z]\w*", name):
            hint = "only assign and compare import a class: register it (docs/plugins.md); "
        super().__init__(f"no strategy named {name!r}; {hint}known: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)
        self.close = tuple(close)


class UnknownPartitionerError(PartageError):
    """Raised if no partitioner (a rule that maps record keys to partitions) has the given name.

    The attribute ``known`` lists all partitioners, and ``close`` those with a similar name.

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
    """Raised for record keys that no partitioner accepts, for example unserialised objects.

    Partitioners hash the bytes of a key, so the message says which key must be serialised first.

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
    """Raised if an assignment strategy cannot handle a group or cluster that is valid in itself.

    For example, ``roundrobin:0.8`` needs the same subscription for all members. Kafka's own class
    throws an exception in such a case, too.
    """


class PluginFailedError(PartageError):
    """Raised if the assignment strategy of a plug-in fails or returns no assignment.

    A plug-in is a strategy that another installed package provides. The attribute ``reason``
    describes its error.

    >>> str(PluginFailedError("acme:best", "ValueError: boom"))
    'acme:best: the plug-in failed (ValueError: boom)'
    """

    def __init__(self, strategy: str, reason: str) -> None:
        super().__init__(f"{strategy}: the plug-in failed ({reason})")
        self.strategy = strategy
        self.reason = reason


class InvalidPlacementError(PartageError):
    """Raised if the replicas of a new topic cannot be placed on the brokers as requested.

    For example, the replication factor exceeds the number of brokers. The attribute
    ``java_exception`` names the exception that Kafka throws in this case.

    >>> InvalidPlacementError("too few", java_exception="InvalidPartitionsException").java_exception
    'InvalidPartitionsException'
    """

    def __init__(self, what: str, *, java_exception: str) -> None:
        super().__init__(what)
        self.java_exception = java_exception


class NoFeasiblePlanError(PartageError):
    """Raised if no reassignment of replicas satisfies all constraints, such as disk capacity.

    The attribute ``constraint`` names a constraint that prevents it.

    >>> str(NoFeasiblePlanError("capacity", "replicas need 9 bytes, brokers have room for 8"))
    'no feasible plan (capacity): replicas need 9 bytes, brokers have room for 8'
    """

    def __init__(self, constraint: str, what: str) -> None:
        super().__init__(f"no feasible plan ({constraint}): {what}")
        self.constraint = constraint
        self.what = what


class InvalidTopologyError(PartageError):
    """Raised if the topology of a Kafka Streams application does not fit the topics of the cluster.

    For example, a source topic is missing, or co-partitioned topics have different partition
    counts.

    Attributes:
        topics: the affected topics.
        java_exception: the exception of Kafka Streams.
        code: assignment error that the leader sends to all members: 1 if a source topic is
            missing, else 3; None if the exception stops the leader, which then sends nothing.

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


#: Value of a setting that is missing.
_MISSING = object()


class InvalidConfigError(PartageError):
    """Raised if a setting is missing, or if its value has a wrong type or is out of range.

    The message names the setting and its value, but omits secret values. An error without a value
    means that the setting is missing.

    >>> str(InvalidConfigError("priority", "must be an int32", "high"))
    "setting priority: must be an int32, got 'high'"
    >>> str(InvalidConfigError("members", "is needed without a run"))
    'setting members: is needed without a run'
    """

    def __init__(self, setting: str, what: str, value: object = _MISSING) -> None:
        # What the command line calls by name needs no other word.
        kind = "" if setting.startswith("--") or setting == "INPUT" else "setting "
        got = "[hidden]" if _SECRET.search(setting) and isinstance(value, str) else _shown(value)
        given = "" if value is _MISSING else f", got {got}"
        super().__init__(f"{kind}{setting}: {what}{given}")
        self.setting = setting
        self.what = what
        self.value = value


class InconsistentGroupProtocolError(PartageError):
    """Raised if a member and the consumer group that it joins have no assignment strategy in
    common.

    A member must support a strategy that all other members support, and have the group's protocol
    type. Kafka's coordinator answers with error 23 (INCONSISTENT_GROUP_PROTOCOL). The group remains
    unchanged.
    """


class WireFormatError(PartageError):
    """Raised if bytes are not a valid Kafka message or record of the expected type.

    The attribute ``offset`` counts bytes from the start of the payload. ``field`` is the dotted
    path of the field being read, ``version`` the schema version (-1 if not known yet).

    >>> str(WireFormatError("2 bytes needed, 1 left", offset=4, field="value.members", version=3))
    'value.members (version 3) at byte 4: 2 bytes needed, 1 left'
    """

    # A damaged log has millions of these: no dict, and the text is made on demand.
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
    """Raised if a recording of a Kafka cluster, or the stored result of a run, cannot be read.

    For example, a file is missing or damaged, or a column does not have the expected type. The
    message names the file and the column.
    """


class ClusterUnreachableError(PartageError):
    """Raised if no broker of a Kafka cluster answers, or if a broker rejects the client.

    The message has the bootstrap address, the reason, and a hint on what to check.

    >>> str(ClusterUnreachableError("h:1", "refused", "look at host and port"))
    'no cluster at h:1 (refused): look at host and port'
    """

    def __init__(self, bootstrap: str, reason: str, hint: str) -> None:
        super().__init__(f"no cluster at {bootstrap} ({reason}): {hint}")
        self.bootstrap = bootstrap
        self.reason = reason


class NotAuthorizedError(PartageError):
    """Raised if a client lacks a permission (Kafka ACL) that an operation needs.

    The message names the resource and the missing operations.

    >>> str(NotAuthorizedError("topic __consumer_offsets", "READ and DESCRIBE"))
    'not authorized for topic __consumer_offsets: the account needs READ and DESCRIBE'
    """

    def __init__(self, resource: str, operations: str) -> None:
        super().__init__(f"not authorized for {resource}: the account needs {operations}")
        self.resource = resource
        self.operations = operations


class PlanInvariantError(PartageError):
    """Raised if an assignment breaks a rule, for example gives one partition to two members.

    The attribute ``breaches`` lists all violations.
    """

    def __init__(self, breaches: Sequence[object]) -> None:
        shown = "; ".join(str(b) for b in breaches[:5])
        more = f"; and {len(breaches) - 5} more" if len(breaches) > 5 else ""
        super().__init__(f"{len(breaches)} breaches: {shown}{more}")
        self.breaches = tuple(breaches)


class CertificateError(PartageError):
    """Raised if a certificate does not prove that an assignment is as good as claimed.

    A certificate holds claims of optimality, such as "no plan moves fewer partitions", with the
    numbers that prove them.
    """


class ProblemTooLargeError(PartageError):
    """Raised if an exact result was requested for a group or cluster that is too large for it.

    Optimal assignments are computed as network flows, whose size and running time are limited.
    """


class MissingExtraError(PartageError):
    """Raised if an operation needs an optional library that is not installed.

    The message has the command that installs it.

    >>> str(MissingExtraError("pyspark", extra="spark"))
    "pyspark is not installed: pip install 'partage[spark]'"
    """

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'partage[{extra}]'")
        self.library = library
        self.extra = extra


class MissingJavaError(PartageError):
    """Raised if Spark cannot start because there is no suitable Java.

    Java is missing, too old, or cannot be started. The message says which version is needed and how
    to install it.
    """


class SparkFailedError(PartageError):
    """Raised if Spark's Java process or one of its workers ended in the middle of a run.

    A common reason is too little memory. The same run can be started again.
    """


class AssignorFailedError(PartageError):
    """Raised if an assignment strategy failed while it ran in the leader of a live consumer group.

    The message has the group, its generation and the original error.

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
    """Raised if a run lost or duplicated records of the log; its results are then not published.

    The number of records read must equal the number of decoded records plus the number of malformed
    ones.
    """
