"""Worker processes on this machine, which run items of a job next to the calling process.

The pool is loky's ``ProcessPoolExecutor`` (extra ``fast``). Its workers are new interpreters: a
fork would copy locks that threads of Arrow, BLAS or a progress display hold. Unlike those of the
standard library's pool they do not import the user's script, which would replay once more if it
has no ``if __name__ == "__main__"``.

The calling process takes items as well. If workers cannot be started or are killed, it runs their
items, so that workers affect the duration of a job and never its results.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Generic, TypeVar

__all__ = ["WorkerProcesses", "available_cores", "environment_variables", "rare_collections"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Environment of a new interpreter: modules of the working directory are not imported. Python 3.10
#: ignores it.
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}
#: Seconds between two looks of a worker whether the calling process still exists.
_SECONDS_BETWEEN = 1.0
#: Thresholds of Python's garbage collector while a job runs. Jobs make many objects and few cycles:
#: with the usual thresholds a replay of the sample spends a tenth of its CPU time on collections.
_THRESHOLDS = (50_000, 20, 50)


def available_cores() -> int:
    """Return the number of CPU cores that this process may use.

    It may be less than the number of cores of the machine, for example in a container.
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        return os.cpu_count() or 1


class WorkerProcesses:
    """Pool of worker processes that call a function on many items, together with the calling
    process.

    The workers start when the object is created. They import modules in the background until the
    first call of `map_items`. If a worker cannot be started or is killed, the calling process runs
    its items.

    Args:
        count: number of workers; 0 runs everything in the calling process.
        modules: names of modules that the workers import at their start.

    >>> with WorkerProcesses(0) as workers:
    ...     workers.map_items(abs, [-2, 1])
    [2, 1]
    """

    def __init__(self, count: int, modules: Sequence[str] = ()) -> None:
        self._executor: Any = None
        self._starts: list[Future[int]] = []
        if count:
            self._start_processes(count, tuple(modules))

    @property
    def process_count(self) -> int:
        """Number of worker processes, without the calling process.

        It is 0 if no workers were wanted or none could be started.
        """
        return len(self._starts)

    def _start_processes(self, count: int, modules: tuple[str, ...]) -> None:
        """Start the worker processes of the pool.

        If the library loky is missing or no process can be started, the pool stays empty. Then the
        calling process runs all items.

        Args:
            count: number of worker processes.
            modules: names of the modules that the workers import at their start.
        """
        try:
            from loky import ProcessPoolExecutor

            self._executor = ProcessPoolExecutor(
                count, initializer=_set_up_worker, initargs=(os.getpid(), modules), env=_SAFE_PATH
            )
            with environment_variables(
                _SAFE_PATH
            ):  # loky also starts a process that removes semaphores
                self._starts = [self._executor.submit(os.getpid) for _ in range(count)]
        except (ImportError, NotImplementedError, OSError, RuntimeError, TypeError):
            # TypeError: an embedded interpreter has no sys.executable.
            self.close()

    def __enter__(self) -> WorkerProcesses:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the worker processes, even if they are still running a function.

        The method may be called several times. If `map_items` is called afterwards, the calling
        process runs all items.
        """
        executor, self._executor, self._starts = self._executor, None, []
        if executor is not None:
            executor.shutdown(kill_workers=True)

    def map_items(
        self,
        job: Callable[[Item], Result],
        items: Sequence[Item],
        on_done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Call a function with each item, in the worker processes and in the calling process.

        The items are started in their order, so the most expensive ones should come first. A
        function that cannot be sent to a worker runs in the calling process only.

        Args:
            job: the function; it may not change anything that later items read.
            items: its arguments, one per call.
            on_done: called with the number of finished items, also from another thread.

        Returns:
            list of the results, in the order of the items.

        Raises:
            Exception: the first exception that the function raised. The traceback of a worker is
                its cause.
        """
        queue = _ItemQueue(job, items, on_done)
        if len(items) > 1:
            for start in self._starts:  # a worker that is still starting takes no item
                start.add_done_callback(lambda _: self._submit_next_item(queue))
        try:
            return queue.run_remaining()
        except BaseException:
            if queue.is_shared:  # workers are busy with items that are no longer wanted
                self.close()
            raise

    def _submit_next_item(self, queue: _ItemQueue[Any, Any]) -> None:
        """Send the next item of the queue to a worker process.

        It is called when a worker has started, and when a worker has finished an item. It does
        nothing if the queue is empty.
        """
        position = queue.take_item(by_worker=True)
        if position is None:
            return
        executor = self._executor
        sent: Future[Any] | None = None
        with suppress(RuntimeError):  # a worker was killed
            sent = None if executor is None else executor.submit(queue.job, queue.items[position])
        if sent is None:
            queue.give_back(position)
        else:
            sent.add_done_callback(partial(self._store_received_result, queue, position))

    def _store_received_result(
        self, queue: _ItemQueue[Any, Any], item_index: int, future: Future[Any]
    ) -> None:
        """Store the result or error of an item that a worker process has run, and send the next
        item.

        If the worker was killed, or the function cannot be sent to a worker, the item is put back
        into the queue. The calling process then runs it.

        Args:
            queue: queue of the items, which also collects their results.
            item_index: index of the item in the queue.
            future: finished future with the item's result or error.
        """
        error = future.exception()
        if error is None:
            queue.store_result(item_index, future.result(), by_worker=True)
            self._submit_next_item(queue)
        elif isinstance(error, BrokenExecutor | pickle.PicklingError):
            queue.give_back(item_index)
        else:
            queue.store_error(error, by_worker=True)


class _ItemQueue(Generic[Item, Result]):
    """Thread-safe queue of items, from which worker processes and the calling process take.

    It also collects the results of the items and the first exception.

    Args:
        job: the function to call with each item.
        items: the items.
        on_done: called with the number of finished items.
    """

    def __init__(
        self,
        job: Callable[[Item], Result],
        items: Sequence[Item],
        on_done: Callable[[int], None] | None,
    ) -> None:
        self.job, self.items, self._on_done = job, items, on_done
        self._waiting = list(range(len(items)))[::-1]
        self._shared = 0
        self._results: dict[int, Result] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def is_shared(self) -> bool:
        """Return whether a worker process is still running an item of this queue."""
        return self._shared > 0

    def take_item(self, *, by_worker: bool = False) -> int | None:
        """Take the next item from the queue, and return its index.

        The result is None if no item is left or if an item has failed. The calling process waits
        while the queue is empty but workers still run items, because a worker may give its item
        back.

        Args:
            by_worker: whether a worker process will run the item, instead of the calling process.
        """
        with self._changed:
            while not by_worker and not self._waiting and self._shared and self._error is None:
                self._changed.wait()
            if not self._waiting or self._error is not None:
                return None
            self._shared += by_worker
            return self._waiting.pop()

    def give_back(self, item_index: int) -> None:
        """Put an item back into the queue, because its worker process was killed or cannot run it.

        The calling process then runs it. ``item_index`` is the item's index.
        """
        with self._changed:
            self._waiting.append(item_index)
            self._shared -= 1
            self._changed.notify_all()

    def store_result(self, item_index: int, result: Result, *, by_worker: bool = False) -> None:
        """Store the result of one item, and report the number of finished items.

        Args:
            item_index: index of the item.
            result: what the function returned for it.
            by_worker: whether a worker process ran it, instead of the calling process.
        """
        with self._changed:
            self._results[item_index] = result
            self._shared -= by_worker
            self._changed.notify_all()
            if self._on_done is not None:
                try:
                    self._on_done(len(self._results))
                except BaseException as e:  # noqa: BLE001 - raised again in the calling thread
                    self._error = self._error or e

    def store_error(self, error: BaseException, *, by_worker: bool = False) -> None:
        """Store the exception that an item raised, so that no further items are started.

        Only the first exception is stored; it is raised in the calling process. ``by_worker`` says
        whether a worker process ran the item.
        """
        with self._changed:
            self._error = self._error or error
            self._shared -= by_worker
            self._changed.notify_all()

    def run_remaining(self) -> list[Result]:
        """Run items in the calling process until the queue is empty; return the results of all
        items.

        It waits for items that worker processes are running. If an item has failed, its exception
        is raised.
        """
        try:
            while (position := self.take_item()) is not None:
                self.store_result(position, self.job(self.items[position]))
        except BaseException as e:
            self.store_error(e)
            raise
        if self._error is not None:
            raise self._error
        return [self._results[position] for position in range(len(self.items))]


@contextmanager
def rare_collections() -> Iterator[None]:
    """Make Python's garbage collector run less often during the ``with`` block, to save CPU time.

    Jobs create many objects but few reference cycles. The old thresholds are restored at the end.
    """
    before = gc.get_threshold()
    if any(before):  # 0: the user has turned it off
        gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables during the ``with`` block, and restore the old values afterwards.

    ``variables`` is a dict from name to value. A variable that was not set before is removed at the
    end.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old


def _set_up_worker(caller: int, modules: Sequence[str]) -> None:
    """Set up a worker process after its start: signals, output, imports and garbage collection.

    Ctrl-C is ignored, because the calling process ends its workers. Standard output is redirected
    to standard error, because a command may write a JSON document to it.

    Args:
        caller: process id of the calling process.
        modules: names of the modules to import.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the calling process ends its workers
    os.dup2(2, 1)  # stdout of a command may be a JSON document
    threading.Thread(target=_exit_with_parent, args=(caller,), daemon=True).start()
    for name in modules:
        with suppress(ImportError):  # then the job cannot be imported either
            import_module(name)
    gc.collect()
    gc.freeze()  # modules stay
    gc.set_threshold(*_THRESHOLDS)


def _exit_with_parent(parent_id: int) -> None:
    """End this worker process soon after its parent process has ended.

    It runs in a thread that looks every second, so no worker stays behind if the parent is killed.
    ``parent_id`` is the process id of the parent.
    """
    while os.getppid() == parent_id:
        time.sleep(_SECONDS_BETWEEN)
    os._exit(1)
