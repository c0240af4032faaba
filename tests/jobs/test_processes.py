"""Worker processes of the local engine: order of results, failures, and equal tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.support.captures import capture, records, rows_of
from tests.support.processes import skip

from partage.errors import InvalidConfigError
from partage.jobs.processes import WorkerProcesses
from partage.jobs.replay.engines import local_processes
from partage.jobs.replay.replay import replay
from partage.tables.schemas import TABLES

_SECONDS_TO_WAIT = 60


@pytest.fixture(scope="module", autouse=True)
def _loky() -> None:
    if find_spec("loky") is None:
        skip("loky is not installed (extra fast)")


@pytest.fixture
def workers() -> Iterator[WorkerProcesses]:
    """One process next to this one; a test whose job fails may end it."""
    with WorkerProcesses(1) as started:
        yield started


def _meet(folder: Path, item: int) -> int:
    """Return the process of an item, once another process has taken another item."""
    (folder / f"{os.getpid()}").touch()
    until = time.monotonic() + _SECONDS_TO_WAIT
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < until, f"no other process has taken an item beside {item}"
        time.sleep(0.01)
    return os.getpid()


def _fail_elsewhere(folder: Path, caller: int, item: int) -> int:
    _meet(folder, item)
    if os.getpid() != caller:
        raise InvalidConfigError("--out", "must be a folder", str(item))
    return item


def _die_elsewhere(folder: Path, caller: int, item: int) -> int:
    _meet(folder, item)
    if os.getpid() != caller:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def _print(item: int) -> int:
    print("not a reply")
    return -item


def test_both_processes_take_items_and_results_keep_their_order(
    workers: WorkerProcesses, tmp_path: Path
) -> None:
    """What a job prints does not damage the replies of a worker."""
    found = workers.map_items(partial(_meet, tmp_path), range(4))
    assert len(set(found)) == 2
    assert os.getpid() in found
    done: list[int] = []
    assert workers.map_items(_print, range(50), done.append) == [-item for item in range(50)]
    assert done == list(range(1, 51))


def test_an_exception_in_a_worker_keeps_type_and_traceback(
    workers: WorkerProcesses, tmp_path: Path
) -> None:
    """The next job runs as usual."""
    with pytest.raises(InvalidConfigError, match="must be a folder") as caught:
        workers.map_items(partial(_fail_elsewhere, tmp_path, os.getpid()), range(4))
    assert "in _fail_elsewhere" in str(caught.value.__cause__)
    assert workers.process_count == 1
    assert workers.map_items(_print, [1, 2]) == [-1, -2]


class _Unsendable:
    """A job that cannot be pickled, or not be restored by a worker."""

    def __init__(self, reduced: object) -> None:
        self.reduced = reduced

    def __reduce__(self) -> object:
        if isinstance(self.reduced, Exception):
            raise self.reduced
        return self.reduced

    def __call__(self, item: int) -> tuple[int, int]:
        return item, os.getpid()


@pytest.mark.parametrize("reduced", [TypeError("no"), (int, ("no number",))])
def test_a_job_that_no_worker_can_load_runs_here(reduced: object) -> None:
    """The calling process has the job as it is; the next job runs as usual."""
    with WorkerProcesses(1) as workers:
        workers._starts[0].result()
        assert workers.map_items(_Unsendable(reduced), range(9)) == [
            (i, os.getpid()) for i in range(9)
        ]
        assert workers.map_items(_print, [1, 2]) == [-1, -2]


def test_workers_run_functions_of_the_users_script(
    workers: WorkerProcesses, tmp_path: Path
) -> None:
    """A local function has no name that a worker could import."""
    assert len(set(workers.map_items(lambda item: _meet(tmp_path, item), range(4)))) == 2


def test_an_exception_ends_the_job_while_workers_are_busy(tmp_path: Path) -> None:
    """So does Ctrl-C: nobody waits for items that are no longer wanted."""

    def job(item: int) -> None:
        here = _meet(tmp_path, item) == caller
        if here:
            raise KeyboardInterrupt
        time.sleep(_SECONDS_TO_WAIT)

    caller = os.getpid()
    began = time.monotonic()
    with WorkerProcesses(1) as workers:
        with pytest.raises(KeyboardInterrupt):
            workers.map_items(job, range(4))
        assert workers.map_items(_print, [1, 2]) == [-1, -2]
    assert time.monotonic() - began < _SECONDS_TO_WAIT


def test_an_error_of_the_progress_function_is_raised(workers: WorkerProcesses) -> None:
    """It may come from a thread of the pool, which would swallow it."""

    def on_done(done: int) -> None:
        raise BrokenPipeError(done)

    with pytest.raises(BrokenPipeError):
        workers.map_items(_print, range(4), on_done)


def test_workers_end_when_the_calling_process_is_killed(tmp_path: Path) -> None:
    """No process is left behind."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from partage.jobs.processes import WorkerProcesses\n"
        "workers = WorkerProcesses(1)\n"
        "print(workers._starts[0].result(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        worker = int(started.stdout.readline())
        started.kill()
    until = time.monotonic() + _SECONDS_TO_WAIT
    while _is_running(worker):
        assert time.monotonic() < until
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_items_of_a_killed_worker_run_here(tmp_path: Path) -> None:
    """The results are complete, and later jobs run without the worker."""
    with WorkerProcesses(1) as workers:
        job = partial(_die_elsewhere, tmp_path, os.getpid())
        assert workers.map_items(job, range(4)) == [0, 1, 2, 3]
        assert workers.map_items(_print, [1, 2]) == [-1, -2]


def test_several_processes_give_the_tables_of_one(tmp_path: Path) -> None:
    """All tables are equal, and so is the summary apart from times."""
    folder = capture(tmp_path / "c", records().slice(0, 3_000), row_group_size=1_000)
    found = [
        replay(folder, tmp_path / f"{count}", engine="local", processes=count, policies=["range"])
        for count in (1, 2)
    ]
    for name in TABLES:
        if name != "runs":
            assert rows_of(tmp_path / "1", name) == rows_of(tmp_path / "2", name), name
    for one in found:
        for key in ("run_id", "started_ms", "seconds"):
            del one[key]
    assert found[0] == found[1]


def test_another_process_needs_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and policies count, and no more processes than cores are started by themselves."""
    monkeypatch.setattr("partage.jobs.replay.engines.available_cores", lambda: 2)

    class Capture:
        records = 100_000

    assert local_processes(Capture(), policies=1) == 1
    assert local_processes(Capture(), policies=11) == 2
    assert local_processes(Capture(), policies=1, requested=3) == 3
    with pytest.raises(InvalidConfigError, match="--processes"):
        local_processes(Capture(), policies=1, requested=0)
