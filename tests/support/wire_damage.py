"""Random damage to real payloads, for the fuzz tests and for parity with Kafka's own readers."""

from __future__ import annotations

import functools
import gc
import os
import sys
import tracemalloc
import warnings

from tests.support.wire_samples import distinct_group_records, unbase64, vectors

from partage.errors import WireFormatError

LONGEST = 3000
# Measurements of a peak in a forked process: the first ones refill the interpreter's free lists.
MEASUREMENTS = 4
# Bytes that lengths, counts and varints are made of.
TELLING = [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
LIES = [b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80" * 6]


@functools.cache
def payloads_of(what):
    """Real payloads: (key, value) pairs for "record", bytes for the three embedded messages."""
    if what == "record":
        outs = [line["out"] for line in vectors("record")]
        pairs = [(unbase64(out["keyBytes"]), unbase64(out["valueBytes"])) for out in outs]
        pairs += distinct_group_records()[::7]
        return [(k, v) for k, v in pairs if v is not None and len(v) <= LONGEST]
    name = "sticky-userdata" if what == "sticky" else f"wire-{what}"
    outs = [line.get("out", {}) for line in vectors(name)]
    return [unbase64(out["bytes"]) for out in outs if "bytes" in out]


def damaged(data, rng):
    """One to four changes: bytes set, cut, doubled, taken out, or a lying length put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and place < len(data):
            data[place] = rng.choice(TELLING)
        elif kind == 1 and place < len(data):
            data[place] = rng.randrange(256)
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            data[place:place] = rng.choice(LIES)
        elif kind == 4:
            data[place:place] = data[place : place + rng.randrange(1, 20)]
        else:
            del data[place : place + rng.randrange(1, 6)]
    return bytes(data)


def random_bytes(rng):
    """Bytes of no origin, mostly such as lengths are made of."""
    pool = TELLING if rng.random() < 0.5 else range(256)
    return bytes(rng.choice(pool) for _ in range(rng.randrange(60)))


def peak_of(read, arguments, *, limit=0):
    """Return the most bytes that ``read`` holds at once; ``read`` must be warm.

    tracemalloc counts the whole process: other threads and finalizers add to a peak, and so do
    objects that replace free lists which a collection has just emptied. A peak above ``limit`` is
    therefore measured again in a forked process, which has this thread alone and collects nothing.
    """
    peak = _peak(read, arguments)
    return peak if peak <= limit else _forked_peak(read, arguments)


def _forked_peak(read, arguments):
    """The peak in a child of this process; the smallest of some measurements, all of one thread."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads may hold locks
        child = os.fork()
    if child == 0:
        try:
            gc.disable()
            peak = min(_peak(read, arguments) for _ in range(MEASUREMENTS))
            os.write(sink, str(peak).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as answer:
        peak = answer.read()
    os.waitpid(child, 0)
    return int(peak)


def _peak(read, arguments):
    sys._getframe()  # this function's own frame object exists before the measurement
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:  # noqa: SIM105 - `suppress` has frames and objects of its own
        read(*arguments)
    except WireFormatError:
        pass
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak
