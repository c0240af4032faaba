"""What the Python contestants share: runs, peak memory, the plan's file."""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path


def arguments(words):
    """Problem, path of the plan, and the limits: fewest and most runs, two spans of seconds."""
    problem, plan, fewest, most, enough, at_most = words
    limits = (int(fewest), int(most), float(enough), float(at_most))
    return json.loads(Path(problem).read_bytes()), plan, limits


def timed(work, limits, cpu=None):
    """Nanoseconds of each run, and the last answer; one run is always made.

    CPU nanoseconds of the thread go into the list ``cpu``: under load they tell more.
    """
    fewest, most, enough, at_most = limits
    nanos, out, begin = [], None, time.perf_counter()
    while not nanos or (
        len(nanos) < most
        and time.perf_counter() - begin < (at_most if len(nanos) < fewest else enough)
    ):
        out = None
        before, start = time.thread_time_ns(), time.perf_counter_ns()
        out = work()
        nanos.append(time.perf_counter_ns() - start)
        if cpu is not None:
            cpu.append(time.thread_time_ns() - before)
    return nanos, out


def peak():
    """KiB of memory at most resident so far; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def write(owner, path):
    """The owners as little-endian int32."""
    values = array("i", owner)
    if sys.byteorder != "little":
        values.byteswap()
    Path(path).write_bytes(values.tobytes())
