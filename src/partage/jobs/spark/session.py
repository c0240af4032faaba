"""The Spark session of a run: the user's own, the active one, or a new one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic, sleep
from typing import TYPE_CHECKING

from partage.capture.secrets import hide_secrets, secrets_in, shown_settings
from partage.errors import (
    InvalidConfigError,
    MissingExtraError,
    MissingJavaError,
    PartageError,
)
from partage.jobs.processes import environment_variables
from partage.jobs.spark.failures import java_message
from partage.jobs.spark.shipping import is_local, ship_package

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["JAVA_NEEDED", "SQL_SETTINGS", "expect_reachable", "spark_session"]

#: The oldest Java that Spark 4 runs on.
JAVA_NEEDED = 17

#: Settings of queries: set for the time of a run, on a user's own session too.
SQL_SETTINGS = {
    # mapInArrow matches columns by position: swapped ones would pass silently otherwise.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # A row may hold a thousand runs of commits: bytes are what a worker must not have too many of.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    # Without it Spark's Kafka source says that an internal topic is empty (see `kafka_source`).
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}

_START_SETTINGS = {
    # Small Python tasks are 2.8 times faster than over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}

#: Settings of a local master: no other machine needs to reach the driver.
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

DEFAULT_MASTER = "local[*]"

#: Settings of the JVM's class path.
_CLASS_PATH = {
    "spark.jars", "spark.jars.packages", "spark.driver.extraClassPath",
}  # fmt: skip


@contextmanager
def spark_session(
    users_session: SparkSession | None = None,
    *,
    is_short: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield a Spark session with Partage's settings: the user's own, the active one, or a new one.

    A session that was started here is stopped at the end of the ``with`` block. Settings of another
    session are restored.

    Args:
        users_session: the user's own session; None for the active one, or a new one.
        is_short: whether the job is short. Java's second compiler is then off, as it takes longer
            than it saves (measured: 9 instead of 19 seconds of CPU time for the sample, 13 instead
            of 24 for 10 M records in files).
        master: Spark's master, ``local[*]`` (this process) by default. Executors on other nodes are
            sent this version of Partage.
        conf: more settings of Spark; they override Partage's.

    Raises:
        MissingExtraError: PySpark is not installed.
        MissingJavaError: there is no Java, or it is too old.
        InvalidConfigError: the session given is one of Spark Connect, a running session has another
            master, or Spark does not start with this master or setting.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("pyspark", extra="spark") from None
    found = users_session or SparkSession.getActiveSession()
    if found is not None:
        _expect_classic(found)
        _expect_master(found, master)
    asked = dict(conf or {})
    with ExitStack() as opened:
        start = partial(
            _start_session, is_short=is_short, master=master or DEFAULT_MASTER, conf=asked
        )
        spark = found or opened.enter_context(start())
        opened.enter_context(_apply_settings(spark, asked))
        ship_package(spark.sparkContext)
        yield spark


def _expect_classic(spark: SparkSession) -> None:
    try:
        spark.sparkContext  # noqa: B018 - Spark Connect raises here
    except Exception as e:
        what = (
            "must be a classic session: Spark Connect has no SparkContext, which sends code and "
            "data to the workers; start a classic session, or replay with engine local"
        )
        got = f"{type(spark).__module__}.{type(spark).__name__}"
        raise InvalidConfigError("spark", what, got) from e


def _expect_master(spark: SparkSession, master: str | None) -> None:
    running = spark.sparkContext.master
    if master is not None and master != running:
        what = f"cannot be had: a Spark session is running already, with master {running}"
        raise InvalidConfigError("--master", what, master)


@contextmanager
def _apply_settings(spark: SparkSession, user_settings: Mapping[str, str]) -> Iterator[None]:
    """Apply Partage's Spark SQL settings to a session during the ``with`` block.

    The old values are restored at the end. The user's settings (``user_settings``) take precedence
    over Partage's.
    """
    wanted = SQL_SETTINGS | {k: v for k, v in user_settings.items() if k.startswith("spark.sql.")}
    wanted = {k: v for k, v in wanted.items() if spark.conf.isModifiable(k)}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def _start_session(
    *, is_short: bool, master: str, conf: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Start a Spark session for the ``with`` block, and stop it at the end of the block.

    Args:
        is_short: whether the job is short; Java then starts faster but computes more slowly.
        master: Spark's master.
        conf: the user's Spark settings.
    """
    from pyspark.sql import SparkSession

    expect_reachable(master)
    _expect_java()
    with ExitStack() as opened:
        wanted = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if not master.startswith("local"):  # what other machines have, their owner knows
            wanted = {k: os.environ.get(k, v) for k, v in wanted.items()}
        if master.startswith("local-cluster"):  # it would write into PySpark's own folder
            folder = opened.enter_context(TemporaryDirectory(prefix="partage-workers-"))
            wanted["SPARK_WORKER_DIR"] = folder
        # Workers must be this Python: another one would not have Partage, nor pyarrow.
        opened.enter_context(environment_variables(wanted))
        spark = SparkSession(_start_context(is_short=is_short, master=master, user_settings=conf))
        try:
            spark.sparkContext.setLogLevel("ERROR")
            if not is_local(master):
                _wait_for_executors(spark.sparkContext)
            yield spark
        finally:
            spark.stop()


def _start_context(
    *, is_short: bool, master: str, user_settings: Mapping[str, str]
) -> SparkContext:
    """Start a Spark context whose JVM writes its messages to a file instead of the terminal.

    The file is read only if Spark does not start, for the error message.

    Args:
        is_short: whether the job is short; Java then compiles with its first compiler only.
        master: Spark's master.
        user_settings: the user's Spark settings.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if _CLASS_PATH & user_settings.keys():
        _end_idle_jvm()  # first: a SparkConf is an object in the JVM
    conf = SparkConf().setMaster(master).setAppName("partage")
    here = _LOCAL_SETTINGS if master.startswith("local") else {}
    conf.setAll(
        [*_START_SETTINGS.items(), *here.items(), *SQL_SETTINGS.items(), *user_settings.items()]
    )
    options = ["-XX:TieredStopAtLevel=1"] if is_short else []
    if "spark.driver.extraJavaOptions" in user_settings:
        options.append(user_settings["spark.driver.extraJavaOptions"])
    quiet = Path(str(resources.files("partage.jobs.spark") / "log4j2.properties"))
    if quiet.is_file():
        options.append(f"-Dlog4j2.configurationFile={quiet.as_uri()}")
    conf.set("spark.driver.extraJavaOptions", " ".join(options))
    # A JVM of an earlier session: Spark keeps it and takes it again, whatever our options say.
    if SparkContext._gateway is not None:  # noqa: SLF001 - there is no public way to ask
        try:
            return SparkContext(conf=conf)
        except (PySparkException, Py4JError) as e:
            raise _start_error(java_message(e) or str(e), master, user_settings) from None
    with TemporaryFile() as log:
        try:
            gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]  # py4j has no types
            return _suppress_accumulator_traceback(SparkContext(conf=conf, gateway=gateway))
        except KeyboardInterrupt as e:
            _kill_launching_jvm(e)
            raise
        except (PySparkException, Py4JError, OSError) as e:
            log.seek(0)
            said = log.read().decode("utf-8", "replace").strip().splitlines()
            # The last line that is not of a stack trace.
            said = [line for line in said if not line.lstrip().startswith("at ")]
            reason = java_message(e) or (said[-1] if said else str(e))
            raise _start_error(reason, master, user_settings) from None


#: Seconds to wait for the first executor, and for another one after the last.
_SECONDS_FOR_EXECUTORS, _SECONDS_BETWEEN_EXECUTORS = 30.0, 1.0


def _wait_for_executors(context: SparkContext) -> None:
    """Wait until the cluster's executors have registered, or some seconds have passed.

    With dynamic allocation, executors are started on demand, so there is nothing to wait for.
    """
    # Jobs are divided by the number of cores at their beginning. Spark counts two cores until
    # executors register, and a large cluster would get two tasks.
    if context.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return
    scheduler = context._jsc.sc()  # noqa: SLF001 - PySpark has no public way
    count, changed = 0, monotonic()
    while True:
        found = scheduler.getExecutorMemoryStatus().size() - 1  # it counts the driver
        if found != count:
            count, changed = found, monotonic()
        limit = _SECONDS_BETWEEN_EXECUTORS if count else _SECONDS_FOR_EXECUTORS
        if monotonic() - changed > limit:
            return
        sleep(0.1)


def _end_idle_jvm() -> None:
    """Stop the idle JVM that PySpark keeps after a session has ended.

    A reused JVM would ignore new ``spark.jars``, because it reads its class path only when it
    starts. Nothing happens if a session still uses the JVM.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way
    if gateway is None or SparkContext._active_spark_context is not None:  # noqa: SLF001 - as above
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - as above


def _start_error(reason: str, master: str, user_settings: Mapping[str, str]) -> PartageError:
    """Return the error for a Spark session that did not start; its message contains no secrets.

    The error is about the user's settings if there are any, else about Java.

    Args:
        reason: the message of Java or PySpark, which may repeat settings.
        master: Spark's master.
        user_settings: the user's Spark settings.
    """
    why = hide_secrets(reason, secrets_in(user_settings))[:300]
    if user_settings or master != DEFAULT_MASTER:
        given = ", ".join(
            f"{name}={value}" for name, value in shown_settings(user_settings).items()
        )
        also = f" and --conf {given}" if given else ""
        what = f"Spark cannot be started with this master{also} ({why})"
        return InvalidConfigError("--master", what, master)
    return MissingJavaError(f"Spark cannot be started: {why}")


def _suppress_accumulator_traceback(context: SparkContext) -> SparkContext:
    """Suppress the traceback that PySpark's accumulator server prints when the JVM is killed.

    Return the same Spark context. Partage raises an error of its own in this case.
    """
    server = context._accumulatorServer  # noqa: SLF001 - there is no public way
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # silenced on purpose
    return context


def _kill_launching_jvm(error: BaseException) -> None:
    """Kill the JVM that PySpark was starting when the user pressed Ctrl-C.

    The JVM would otherwise wait forever for its Python process. It is found in the traceback of
    ``error``, as a local variable of PySpark's function.
    """
    trace = error.__traceback__
    while trace is not None:
        started = trace.tb_frame.f_locals.get("proc")
        if isinstance(started, subprocess.Popen):
            started.kill()
            started.wait()
        trace = trace.tb_next


def _expect_java() -> None:
    """Raise an error if no Java is installed that Spark can use.

    Raises:
        MissingJavaError: there is no Java, or its version is too old; the message says what to
            install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    install = f"install Java {JAVA_NEEDED} (a JRE is enough) and put it on the PATH or in JAVA_HOME"
    if java is None or not Path(java).is_file():
        where = f"JAVA_HOME is {home}, without bin/java" if home else "there is no java on the PATH"
        raise MissingJavaError(f"Spark needs Java {JAVA_NEEDED}, and {where}: {install}")
    try:
        version = subprocess.run(  # noqa: S603 - the java that Spark itself would start
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as e:
        raise MissingJavaError(f"{java} cannot be started ({e}): {install}") from None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version)
    major = int(match[2] or 0) if match and match[1] == "1" else int(match[1]) if match else 0
    if 0 < major < JAVA_NEEDED:
        raise MissingJavaError(f"Spark needs Java {JAVA_NEEDED}, {java} is Java {major}: {install}")


_STANDALONE = re.compile(r"spark://(.+)")
_SECONDS = 5.0


def expect_reachable(master: str) -> None:
    """Raise an error if a standalone Spark master does not accept connections.

    Without this check, Spark would retry for about a minute.

    Args:
        master: Spark's master; only ``spark://HOST:PORT[,HOST:PORT...]`` is checked.

    Raises:
        InvalidConfigError: an address is malformed, or none of the hosts can be reached.
    """
    match = _STANDALONE.fullmatch(master)
    if match is None:
        return
    failures = []
    for address in match[1].split(","):
        host, _, port = address.strip().rpartition(":")
        if not (host and port.isdigit() and 0 < int(port) < 65_536):
            raise InvalidConfigError("--master", "must be spark://HOST:PORT", master)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
                return
        except OSError as e:
            failures.append(f"{address}: {_reason(e)}")
    what = f"cannot be reached ({'; '.join(failures)}); check host and port of the master"
    raise InvalidConfigError("--master", what, master)


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, TimeoutError):
        return f"no answer within {_SECONDS:.0f} s"
    return str(error.strerror or error)
