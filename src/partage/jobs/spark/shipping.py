"""Partage on the nodes of a Spark cluster: send the package, and compile kernels once per node."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import partage

if TYPE_CHECKING:
    from pyspark import SparkContext, TaskContext

__all__ = ["current_task", "freeze_imports", "is_local", "load_kernels", "ship_package"]

#: What no node needs: the sample is for the demo, templates and commands are the driver's.
_LEFT_OUT = ("sample", "report", "results", "cli")


def ship_package(context: SparkContext) -> bool:
    """Send the Partage package to all executors of a Spark cluster, so that they run this version.

    In local mode nothing is sent, and the result is False. The nodes need Python with numpy,
    pyarrow and numba (the extra ``spark``). They also need the capture and the output folder under
    the same paths.
    """
    if is_local(str(context.master)):
        return False
    context.addPyFile(str(_write_archive()))
    return True


@lru_cache(maxsize=1)
def _write_archive() -> Path:
    """Write the Partage package to a zip file for Spark's executors, and return the file's path.

    The file is written once per process, and removed when the process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="partage-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _zip_package(folder / "partage-shipped.zip")


def is_local(master: str) -> bool:
    """Return whether a Spark master URL such as ``local[4]`` runs Spark's tasks on this machine.

    >>> is_local("local[*]"), is_local("local-cluster[2,1,2048]")
    (True, False)
    """
    return master.partition("[")[0] == "local"


def _zip_package(path: Path) -> Path:
    root = Path(partage.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            inside = file.relative_to(root)
            wanted = inside.parts[0] not in _LEFT_OUT and "__pycache__" not in inside.parts
            if file.is_file() and wanted:
                archive.write(file, Path("partage") / inside)
    return path


def current_task() -> TaskContext | None:
    """Return the context of the Spark task that this process runs.

    The result is None outside of Spark's workers.
    """
    loaded = sys.modules.get("pyspark")
    return None if loaded is None else loaded.TaskContext.get()


def load_kernels() -> None:
    """Load the compiled kernels that decode records and rebuild histories into this Spark worker.

    If they are not in Numba's cache, the first worker of a node compiles them, while the others
    wait.
    """
    from partage.history.commit_kernels import (
        close_minutes,
        fold_minutes,
        fold_stretches,
        reduce_commits,
        reduce_stretches,
    )
    from partage.wire.columns.classic_kernels import read_groups, read_payloads
    from partage.wire.columns.commit_kernel import read_commits

    needed = (
        read_commits, reduce_commits, reduce_stretches, read_groups, read_payloads,
        fold_minutes, fold_stretches, close_minutes,
    )  # fmt: skip
    if not all(one.is_compiled for one in needed):
        with _lock_node():
            for one in needed:
                one.compile()
    if current_task() is not None:  # garbage of the user's own process is not ours to keep
        freeze_imports()


def freeze_imports() -> None:
    """Exempt all loaded modules from garbage collection (`gc.freeze`), to save time in Spark
    workers.

    It works once per process, and once more after Numba has been loaded.
    """
    _freeze("numba" in sys.modules)


@cache
def _freeze(_numba: bool) -> None:  # noqa: FBT001 - the argument is the cache's key
    gc.collect()
    gc.freeze()


@contextmanager
def _lock_node() -> Iterator[None]:
    """Hold a lock file during the ``with`` block, so that only one process on this node runs the
    block.

    The lock is per user. Where file locks do not work, nothing is locked.
    """
    path = Path(tempfile.gettempdir()) / f"partage-kernels-{os.getuid()}.lock"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = held.enter_context(path.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
