"""What the Python contestants share: runs, peak memory, the plan's file."""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path


def arguments():
    """Problem, path of the plan, fewest and most runs, seconds."""
    problem, plan, fewest, most, enough = sys.argv[-5:]
    return json.loads(Path(problem).read_bytes()), plan, (int(fewest), int(most), float(enough))


def timed(work, limits):
    """Nanoseconds of each run, and the last answer."""
    fewest, most, enough = limits
    nanos, out, begin = [], None, time.perf_counter()
    while len(nanos) < most and (len(nanos) < fewest or time.perf_counter() - begin < enough):
        out = None
        start = time.perf_counter_ns()
        out = work()
        nanos.append(time.perf_counter_ns() - start)
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
