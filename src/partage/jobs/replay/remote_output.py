"""Output of a replay at an address: written in a local work folder, then published there.

1. The run writes its tables and state to a local work folder, as it does for a local output.
2. `RemoteOutput.publish` uploads the tables and the state. Their names contain the run id, so no
   reader looks for them yet.
3. It uploads the run's manifest, then ``summary.json``, and ``manifest.json`` last. Readers follow
   this one small file, which changes at once (`RemoteFiles.publish`). So they see the earlier run
   or the whole new one, also in stores without rename.

While files are uploaded, ``running/<run_id>.json`` at the address names host and process. The next
run on this host removes the files of a run that was killed in the middle of it. A run with
``--append`` first downloads what it continues. Work folders of killed processes are removed, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.replay.lake_tables import LakeTables, open_lake
from partage.jobs.replay.output import STATE, describe_process, remove_dead_locks, run_lock
from partage.jobs.replay.state_files import ReplayState, StaleStateError
from partage.jobs.spark.failures import jvm_errors
from partage.jobs.spark.remote_files import RemoteFiles, expect_no_password, storage_errors
from partage.jobs.spark.session import spark_session
from partage.jobs.spark.tables import is_address
from partage.runs.published_run import MANIFEST, SUMMARY
from partage.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partage.jobs.spark.progress import Progress

__all__ = ["OutputFolder", "RemoteOutput", "downloaded_run", "open_output"]

_WORK = "partage-work-"
_RUNNING = "running"


@dataclass
class OutputFolder:
    """Output folder of one run of ``partage replay``.

    Attributes:
        folder: the local folder to which the run writes.
        spark: the session for the run; None for none yet.
        lake: the Delta or Iceberg tables to which the run is appended; None for none.
    """

    folder: Path
    spark: SparkSession | None = None
    lake: LakeTables | None = None

    def publish(
        self,
        run_id: str,
        page: Path | None,  # noqa: ARG002 - for an output at an address
        progress: Progress,
    ) -> None:
        """Append a run to the Delta or Iceberg tables, if the user wants such tables.

        The run must already be published in the local folder.

        Args:
            run_id: id of the run.
            page: the report; None for none.
            progress: called with (stage, done, total).

        Raises:
            InvalidConfigError: a table cannot be written.
        """
        if self.lake is not None:
            progress("tables", 0, 0)
            self.lake.append_run(self.folder, run_id)
            progress("tables", 1, 1)


@dataclass
class RemoteOutput(OutputFolder):
    """Output folder in remote storage such as S3, with a local work folder in which one run writes
    its files.

    Attributes:
        address: address of the output folder, without a slash at its end.
        downloaded: downloaded files, relative to the local folder.
    """

    address: str = ""
    downloaded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        assert self.spark is not None  # noqa: S101 - for mypy: it opens the address
        self._session = self.spark
        self._files = RemoteFiles(self._session, self.address)

    def _at(self, name: str) -> str:
        return f"{self.address}/{name}"

    def check(self) -> None:
        """Check that the remote output folder can be written and has no files of other programs.

        Files of earlier runs of Partage may be there. Files of runs that were killed on this host
        during their upload are removed.

        Raises:
            InvalidConfigError: the address has other files, or cannot be written.
        """
        with storage_errors(self._session, self.address, "--out"):
            found = set(self._files.names(self.address))
            if found and not found & {MANIFEST, "tables", _RUNNING}:
                what = "must be empty or an earlier output of Partage; nothing was written"
                raise InvalidConfigError("--out", what, self.address)
            with self._marker("check"):
                pass
            self._remove_killed_runs()

    def download_last_run(self, done: Callable[[int, int], None]) -> None:
        """Download the newest published run with its state, so that ``--append`` can continue it.

        If the run has no state, only its manifest is downloaded, and this run reads all records.
        ``done`` is called with the numbers of downloaded files and of all files.
        """
        with storage_errors(self._session, self.address, "--out"):
            if not self._files.exists(self._at(MANIFEST)):
                return
            self._download([MANIFEST], done)
            run_id = json.loads((self.folder / MANIFEST).read_bytes()).get("run_id")
            state = f"runs/{run_id}/{STATE}"
            if not self._files.exists(self._at(state)):
                return
            self._download([state], done)
            with suppress(StaleStateError, ValueError):
                found = ReplayState.of_json(json.loads((self.folder / state).read_bytes()), {})
                self._download(list(dict.fromkeys(found.file_paths())), done)

    def download_run(self, run_id: str | None) -> None:
        """Download the tables of a published run from remote storage, so that they can be read.

        ``run_id`` is the run's id; None for the newest run.

        Raises:
            InvalidCaptureError: the address has no such run.
        """
        with storage_errors(self._session, self.address, "DIR"):
            manifest = MANIFEST if run_id is None else f"runs/{run_id}/{MANIFEST}"
            if not self._files.exists(self._at(manifest)):
                what = "no published run here" if run_id is None else f"no run {run_id!r} here"
                raise InvalidCaptureError(f"{self.address}: {what}")
            self._download([manifest])
            found = json.loads((self.folder / manifest).read_bytes())
            self._download([str(found["summary"]), *_table_files(found)])

    def _download(self, names: list[str], done: Callable[[int, int], None] | None = None) -> None:
        self._files.download_all(self.address, names, self.folder, done or (lambda *_: None))
        self.downloaded.update(names)

    def publish(self, run_id: str, page: Path | None, progress: Progress) -> None:
        """Upload a run from the work folder; the manifest comes last, so readers see a complete
        run.

        Then the run is appended to the Delta or Iceberg tables, if any.

        Args:
            run_id: id of the run.
            page: the report; None for none.
            progress: called with (stage, done, total).

        Raises:
            InvalidConfigError: the address cannot be written; nothing of the run is visible. Or a
                table cannot be written.
        """
        self._upload_run(run_id, page, lambda done, total: progress("upload", done, total))
        super().publish(run_id, page, progress)

    def _upload_run(self, run_id: str, page: Path | None, done: Callable[[int, int], None]) -> None:
        of_run = f"runs/{run_id}"
        manifest = json.loads((self.folder / of_run / MANIFEST).read_bytes())
        state = {
            path.relative_to(self.folder).as_posix()
            for path in self.folder.glob("state/**/*") if path.is_file()
        }  # fmt: skip
        names = [*_table_files(manifest), *sorted(state)]
        if (self.folder / of_run / STATE).is_file():
            names.append(f"{of_run}/{STATE}")
        last = [f"{of_run}/{SUMMARY}", f"{of_run}/{MANIFEST}", SUMMARY, MANIFEST]
        with storage_errors(self._session, self.address, "--out"), self._marker(run_id):
            try:
                new = [name for name in names if name not in self.downloaded]
                self._files.upload_all(self.folder, new, self.address, done)
                for name in last:
                    self._files.publish(self.folder / name, self._at(name))
            except BaseException:
                with suppress(Exception):  # the first error counts
                    self._remove_unpublished(run_id)
                raise
            if page is not None:
                self._files.publish(page, self._at(page.name))
            self._remove_stale_state(state)

    def publish_page(self, page: Path) -> None:
        """Upload the report page of a run to the remote output folder, and replace the page
        there.
        """
        with storage_errors(self._session, self.address, "--out"):
            self._files.publish(page, self._at(page.name))

    @contextmanager
    def _marker(self, run_id: str) -> Iterator[None]:
        """Keep a marker file in remote storage during the ``with`` block, while a run uploads its
        files.

        Other runs do not remove the files of a run with a marker. The marker contains the host and
        process id.
        """
        marker = self._at(f"{_RUNNING}/{run_id}.json")
        with TemporaryDirectory() as made:
            local = Path(made) / "marker.json"
            # A copy of the file cannot be locked: a process of another host counts as alive.
            local.write_text(json.dumps(describe_process() | {"locked": False}))
            self._files.upload(local, marker)
        try:
            yield
        finally:
            with suppress(Exception):  # a network error must not hide the first error
                self._files.remove(marker)
                self._files.remove_empty_folder(self._at(_RUNNING))

    def _remove_killed_runs(self) -> None:
        from py4j.protocol import Py4JJavaError

        with TemporaryDirectory() as made:
            for name in self._files.names(self._at(_RUNNING)):
                marker = Path(made) / _RUNNING / name
                with suppress(Py4JJavaError):  # a run that ended meanwhile
                    self._files.download(self._at(f"{_RUNNING}/{name}"), marker)
            for run_id in remove_dead_locks(Path(made)):
                self._remove_unpublished(run_id)
                self._files.remove(self._at(f"{_RUNNING}/{run_id}.json"))

    def _remove_unpublished(self, run_id: str) -> None:
        """Remove the files of a run from the remote output folder, unless the run is published."""
        if self._files.exists(self._at(f"runs/{run_id}/{MANIFEST}")):
            return
        for folder in (*(f"tables/{table}/{run_id}" for table in TABLES), f"state/{run_id}",
                       f"runs/{run_id}"):  # fmt: skip
            self._files.remove(self._at(folder))

    def _remove_stale_state(self, needed: set[str]) -> None:
        """Remove stored state of earlier runs that the published run does not need.

        Nothing is removed while another run uploads files, because that run may need the state.
        ``needed`` are the paths of the files to keep.
        """
        if len(self._files.names(self._at(_RUNNING))) > 1:
            return
        if not needed:
            self._files.remove(self._at("state"))
        for run_id in self._files.names(self._at("state")):
            folder = f"state/{run_id}"
            names = [f"{folder}/{one}" for one in self._files.names(self._at(folder))]
            for name in names if needed.intersection(names) else [folder]:
                if name not in needed:
                    self._files.remove(self._at(name))


def _table_files(manifest: Mapping[str, Any]) -> list[str]:
    return [one["path"] for files in manifest["tables"].values() for one in files]


@contextmanager
def open_output(
    out: str,
    capture: str | Path,
    *,
    progress: Progress,
    append: bool = False,
    table_format: str = "parquet",
    catalog: str | None = None,
    work_dir: Path | None = None,
    engine: str = "spark",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[OutputFolder]:
    """Open the output folder of a replay: a local folder, or remote storage such as
    ``s3a://bucket/run``.

    For remote storage, the run writes to a local work folder, which is uploaded at the end. A Spark
    session is started if it is needed for this, or to write the tables.

    Args:
        out: a folder, or an address such as ``s3a://bucket/run``.
        capture: the input of the run. If workers read its files, a session starts faster.
        progress: called with (stage, done, total).
        append: whether the run continues the newest one at an address, which is downloaded.
        table_format: ``parquet``, ``delta`` or ``iceberg``.
        catalog: catalog and namespace of the tables; None for the output folder.
        work_dir: folder for the work folder of an output at an address; None for that of temporary
            files. With executors on other machines it has the same path on all of them.
        engine: where jobs run, see `engines.choose_engine`.
        master: Spark's master.
        conf: Spark settings, for example credentials.

    Raises:
        InvalidConfigError: the output cannot be used, or an option is missing or wrong.
        MissingExtraError, MissingJavaError: Spark or a library cannot be used.
    """
    is_remote = is_address(out)
    if is_remote:
        expect_no_password(out, "--out")
        if engine == "local":
            what = "must be spark or auto: the output is at an address, which Spark opens"
            raise InvalidConfigError("--engine", what, engine)
    elif work_dir is not None:
        raise InvalidConfigError("--work-dir", "is for an --out at an address", str(work_dir))
    needs_spark = table_format in {"delta", "iceberg"} and (
        engine == "spark" or master is not None or bool(conf)
    )
    place = out.rstrip("/") if is_remote else str(Path(out).absolute())
    with ExitStack() as opened:
        folder = opened.enter_context(_work_folder(work_dir)) if is_remote else Path(place)
        spark = None
        if is_remote or needs_spark:
            opened.enter_context(jvm_errors())
            progress("start Spark", 0, 0)
            is_short = not is_address(str(capture))
            session = spark_session(is_short=is_short, master=master, conf=conf)
            spark = opened.enter_context(session)
            progress("start Spark", 1, 1)
        lake = open_lake(table_format, place, catalog, spark, conf)
        if spark is None or not is_remote:
            yield OutputFolder(folder, spark, lake)
            return
        if work_dir is None and not str(spark.sparkContext.master).startswith("local"):
            what = "is missing: executors write to a folder that all machines share before upload"
            raise InvalidConfigError("--work-dir", what, None)
        with storage_errors(spark, place, "--out"):
            output = RemoteOutput(folder, spark, lake, place)
        output.check()
        if append:
            output.download_last_run(lambda done, total: progress("download", done, total))
        yield output


@contextmanager
def _work_folder(parent: Path | None) -> Iterator[Path]:
    """Create a temporary work folder for the ``with`` block, and remove it at the end.

    Work folders of killed processes on this host are removed first.

    Raises:
        InvalidConfigError: the parent folder cannot be used.
    """
    where = Path(gettempdir()) if parent is None else parent.absolute()
    try:
        where.mkdir(parents=True, exist_ok=True)
        for old in where.glob(f"{_WORK}*"):
            if remove_dead_locks(old):
                shutil.rmtree(old, ignore_errors=True)
        made = Path(mkdtemp(prefix=_WORK, dir=where))
        if parent is not None:
            made.chmod(where.stat().st_mode & 0o777)  # executors may run as another user
    except OSError as e:
        what = f"cannot be used ({e.strerror or e})"
        raise InvalidConfigError("--work-dir", what, str(where)) from None
    try:
        # The lock is beside the output folder: in it, it would count as another run.
        with run_lock(made, "work"):
            (made / "out").mkdir()
            yield made / "out"
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def downloaded_run(
    address: str,
    run_id: str | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[RemoteOutput]:
    """Download a published run from an address for the ``with`` block, and yield its local copy.

    Args:
        address: output folder of ``partage replay``.
        run_id: id of an earlier run; None for the newest.
        master: Spark's master.
        conf: Spark settings, for example credentials.

    Raises:
        InvalidCaptureError: the address has no such run.
        InvalidConfigError: the address cannot be read.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    address = address.rstrip("/")
    expect_no_password(address, "DIR")
    with (
        _work_folder(None) as folder,
        jvm_errors(),
        spark_session(is_short=True, master=master, conf=conf) as spark,
    ):
        with storage_errors(spark, address, "DIR"):
            output = RemoteOutput(folder, spark, None, address)
        output.download_run(run_id)
        yield output
