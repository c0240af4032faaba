"""Options that several commands share, as groups, and the decorator that adds a group to a command.

A long option has one meaning in all commands, and a short one stands for one long option. The
first sentence of an option's help is the same in all commands; a command may add sentences.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from partage.capture.secrets import HIDDEN
from partage.cli.secrets import protect_secrets
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from partage.model import ReplicaCluster

__all__ = [
    "AsJson", "ClusterOptions", "Engine", "GroupPatterns", "OpenPage", "OptionGroup",
    "OutputOptions", "Processes", "Quiet", "RunId", "SparkMaster", "SparkOptions",
    "StrategyConfig", "named_options", "output_option", "parse_seconds", "partitions_option",
    "read_replica_cluster", "replication_option", "spark_settings", "strategy_option",
    "topic_option", "with_options", "write_picture",
]  # fmt: skip

_SPARK_NAME = re.compile(r"spark(\.[A-Za-z]+)+")


class OptionGroup:
    """Base class of a group of command-line options that several commands share.

    Subclasses are dataclasses, whose fields become options of Typer.
    """


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a Typer command so that its parameters may be groups of options (`OptionGroup`).

    Each field of such a dataclass becomes a command-line option.
    """
    # Typer reads options from parameters only, not from dataclasses.
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[inspect.Parameter] = []
    # `get_type_hints` of Python 3.10 hides the option of a parameter whose default is None.
    for one in inspect.signature(command, eval_str=True).parameters.values():
        hint = one.annotation
        if isinstance(hint, type) and issubclass(hint, OptionGroup):
            groups[one.name] = hint
            parameters += _parameters(hint)
        else:
            parameters.append(one.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**named: Any) -> None:
        made = {
            name: group(**{one.name: named.pop(one.name) for one in fields(group)})  # type: ignore[arg-type]  # a dataclass
            for name, group in groups.items()
        }
        command(**named, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameters(group: type[OptionGroup]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name],
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
        )
        for one in fields(group)  # type: ignore[arg-type]  # a dataclass
    ]  # fmt: skip


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
SparkMaster = Annotated[
    str | None,
    typer.Option("--master", metavar="MASTER", show_default=False,
                 help="Spark master, for example 'local[*]'."),
]  # fmt: skip
RunId = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", show_default=False,
                 help="Run in DIR; without it the newest one."),
]  # fmt: skip
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="auto|local|spark",
                 help="Where jobs run. local: one process without Spark and Java; spark: Spark; "
                 "auto: local for small captures, if no option asks for Spark."),
]  # fmt: skip
Processes = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", show_default=False,
                 help="Processes of engine local. Default: one per core, for captures that are "
                 "worth it."),
]  # fmt: skip
OpenPage = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
GroupPatterns = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", show_default=False,
                 help="Group name or pattern, for example 'orders-*'; repeatable."),
]  # fmt: skip
StrategyConfig = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", show_default=False,
                 help="Setting of a strategy; repeatable. A setting without effect is an error."),
]  # fmt: skip


def strategy_option(further_help: str) -> Any:
    """Create the command-line option ``--strategy`` for a command.

    ``further_help`` is appended to the common help text of this option.
    """
    return typer.Option("--strategy", "-s", metavar="NAME", help=f"Strategy name. {further_help}",
                        show_default=False)  # fmt: skip


def topic_option(further_help: str = "") -> Any:
    """Create the command-line option ``--topic`` for a command.

    ``further_help`` is appended to the common help text of this option.
    """
    return typer.Option("--topic", "-t", metavar="TOPIC",
                        help=f"Topic name. {further_help}".rstrip(),
                        show_default=False)  # fmt: skip


def partitions_option(further_help: str = "", metavar: str = "N") -> Any:
    """Create the command-line option ``--partitions`` for a command.

    ``further_help`` is appended to the common help text, ``metavar`` names the value in it.
    """
    what = f"Number of partitions. {further_help}".rstrip()
    return typer.Option("--partitions", "-p", metavar=metavar, help=what)


def replication_option(further_help: str = "") -> Any:
    """Create the command-line option ``--replication-factor`` for a command.

    ``further_help`` is appended to the common help text of this option.
    """
    return typer.Option("--replication-factor", "-r", metavar="N", show_default=False,
                        help=f"Replicas of each partition. {further_help}".rstrip())  # fmt: skip


def output_option(further_help: str, metavar: str = "FOLDER") -> Any:
    """Create the command-line option ``--out`` for a command.

    ``further_help`` is appended to the common help text, ``metavar`` names the value in it.
    """
    return typer.Option("--out", "-o", metavar=metavar, help=f"Output path. {further_help}",
                        show_default=False)  # fmt: skip


def write_picture(file: Path, text: str) -> None:
    """Write an SVG picture to the file that the option ``--picture`` names.

    ``text`` is the content of the SVG file. An existing file is replaced.

    Raises:
        InvalidConfigError: the file cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as e:
        what = f"the picture cannot be written ({e.strerror or e})"
        raise InvalidConfigError("--picture", what, str(file)) from None


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(OptionGroup):
    """Command-line options that name a running Kafka cluster and its client properties.

    Commands with the option ``--bootstrap-server`` share them.
    """

    bootstrap_server: Annotated[
        str | None,
        typer.Option("--bootstrap-server", "-b", metavar="HOST:PORT", show_default=False,
                     help="Brokers of a running cluster; several with commas."),
    ] = None  # fmt: skip
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", metavar="FILE", show_default=False,
                     help="Client properties, as Kafka's own tools take them: security.protocol, "
                     "and those of sasl and ssl."),
    ] = None  # fmt: skip
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-X", metavar="NAME=VALUE", show_default=False,
                     help="Client property; repeatable. Write secrets into the file of "
                     "--command-config: other users can see a command line."),
    ] = None  # fmt: skip

    def client_properties(self) -> dict[str, str]:
        """Return the Kafka client properties of the command line and its properties file.

        From now on, secret values among them are hidden on stderr.

        Raises:
            InvalidConfigError: the file cannot be read, or a property has no equals sign.
        """
        from partage.capture.security import read_properties

        found = read_properties(self.command_config, self.properties or ())
        protect_secrets(found)
        return found

    def connection_settings(self) -> dict[str, Any]:
        """Return kafka-python's settings to connect to the cluster that the command line names.

        They are converted from the user's client properties, such as those for SASL and TLS.

        Raises:
            InvalidConfigError: a file or a property cannot be used; no secret is in the message.
        """
        from partage.capture.security import ClientProperties, connection_settings

        return connection_settings(ClientProperties(self.client_properties()))

    def broker_addresses(self) -> str:
        """Return the addresses of the brokers that the command line names (``host:port,...``).

        They are the value of the option ``--bootstrap-server``.

        Raises:
            BadParameter: no cluster is given.
        """
        if self.bootstrap_server is None:
            raise typer.BadParameter("give the cluster", param_hint="--bootstrap-server")
        return self.bootstrap_server

    def input_or_cluster(
        self, argument: str | None, argument_name: str, topics: Iterable[str] = ()
    ) -> str:
        """Return the input of a command: its argument, or the cluster that the options name.

        A cluster is returned as an address such as ``kafka://host:port/topic,topic``.

        Args:
            argument: value of the command's argument; None if it is missing.
            argument_name: its name, for messages.
            topics: topics to read from the cluster.

        Raises:
            BadParameter: both are given, or neither.

        >>> ClusterOptions(bootstrap_server="b:9092").input_or_cluster(None, "INPUT", ["a", "b"])
        'kafka://b:9092/a,b'
        """
        if argument is not None and self.bootstrap_server is not None:
            raise typer.BadParameter(f"give either {argument_name} or --bootstrap-server, not both")
        if argument is not None:
            return argument
        if self.bootstrap_server is None:
            raise typer.BadParameter(f"give {argument_name} or --bootstrap-server")
        path = ",".join(topics)
        return f"kafka://{self.bootstrap_server}" + (f"/{path}" if path else "")


@dataclass(frozen=True, kw_only=True)
class SparkOptions(OptionGroup):
    """Options for the Spark session that a command starts: its master and Spark settings.

    Commands that process much data with Spark share them.
    """

    master: SparkMaster = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", show_default=False,
                     help="Spark setting; repeatable."),
    ] = None  # fmt: skip

    def spark_settings_by_name(self) -> dict[str, str]:
        """Return the Spark settings from the option ``--conf``, as a dict by name.

        From now on, secret values among them are hidden on stderr.
        """
        return spark_settings(self.conf or [])


@dataclass(frozen=True, kw_only=True)
class OutputOptions(OptionGroup):
    """Options for the output of a command: tables or JSON, and whether to hide progress messages.

    The options are ``--json`` and ``--quiet``.
    """

    as_json: AsJson = False
    quiet: Quiet = False


def spark_settings(conf: Sequence[str]) -> dict[str, str]:
    """Parse the values of the option ``--conf`` (``KEY=VALUE``) to a dict of Spark settings.

    From now on, secret values among them are hidden on stderr.

    Raises:
        InvalidConfigError: an argument has no equals sign, or does not begin with ``spark.``.

    >>> spark_settings(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    words = [one.partition("=") for one in conf]
    made = {key.strip(): value for key, _, value in words}
    for key, _, value in words:  # a name given twice has two values
        protect_secrets({**made, key.strip(): value})
    for key, equals, _ in words:
        if not equals:
            # The word may be a secret all the same; the name of a setting is none.
            got = key if _SPARK_NAME.fullmatch(key) else HIDDEN
            raise InvalidConfigError("--conf", "must be spark.something=value", got)
        if not key.startswith("spark."):
            got = f"{key}={HIDDEN}"
            raise InvalidConfigError("--conf", "must be spark.something=value", got)
    return made


@contextmanager
def named_options(**options: str) -> Iterator[None]:
    """Rename Python arguments to command-line options in the errors of a ``with`` block.

    The command line calls functions of the Python API, whose errors name an argument. Keyword
    arguments map each argument to its option.

    >>> with named_options(groups="--group"):
    ...     raise InvalidConfigError("groups", "no such group", "g")
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: --group: no such group, got 'g'
    """
    try:
        yield
    except InvalidConfigError as e:
        if e.setting not in options:
            raise
        # An option has no value None: it is left out.
        what = e.what.removesuffix(" or None")
        raise InvalidConfigError(options[e.setting], what, e.value) from None


def read_replica_cluster(
    source: str | None, cluster: ClusterOptions, **more: Any
) -> ReplicaCluster:
    """Read the brokers, topics and replicas of a Kafka cluster from a file or from its brokers.

    The user must name exactly one of the two.

    Args:
        source: value of the argument CLUSTER; None if it is missing.
        cluster: the running cluster and its client properties.
        more: further arguments of `partage.commands.reassignments.read_cluster`.

    Raises:
        BadParameter: both are given, or neither.
        InvalidCaptureError, InvalidProblemError, InvalidConfigError: the source cannot be used.
    """
    from partage.commands.reassignments import read_cluster

    if source is not None and cluster.bootstrap_server is not None:
        raise typer.BadParameter("give either CLUSTER or --bootstrap-server, not both")
    if source is None and cluster.bootstrap_server is None:
        raise typer.BadParameter("give CLUSTER or --bootstrap-server")
    options = {"source": "CLUSTER", "bootstrap": "--bootstrap-server", "write_load": "--write-load",
               "log_dirs_before": "--log-dirs-before"}  # fmt: skip
    with named_options(**options):
        return read_cluster(
            source, bootstrap=cluster.bootstrap_server, properties=cluster.client_properties(),
            **more,
        )  # fmt: skip


#: Seconds in each unit of a duration.
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0}


def parse_seconds(text: str, option: str) -> float:
    """Parse a duration such as ``30s``, ``500ms``, ``2m`` or ``1h``, and return it in seconds.

    ``option`` is the name of the command-line option, for errors.

    Raises:
        BadParameter: the text is not a duration.

    >>> parse_seconds("30s", "max-lag"), parse_seconds("500ms", "max-lag"), parse_seconds("2m", "")
    (30.0, 0.5, 120.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)\s*", text)
    if found is None:
        what = f"must be a duration such as 30s, 500ms, 2m or 1h, got {text!r}"
        raise typer.BadParameter(what, param_hint=f"--{option}")
    return float(found[1]) * _SECONDS[found[2]]
