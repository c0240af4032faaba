"""One source, three ways to run it: compiled, plain, and compiled with every index checked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from partage.kernels import Kernel, force_kernel_form

pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")

#: A kernel that reads one item too far.
BEYOND = """
    import numpy as np
    from partage import kernels
    def beyond(values):
        return values[len(values)]
    print(kernels.Kernel(beyond, "int64(int64[::1])").compile()(np.arange(3)))
"""

#: A kernel in a zip, where no cache can be written; plans on an event loop.
ZIPPED = """
    import sys, zipfile
    with zipfile.ZipFile(sys.argv[1], "w") as archive:
        archive.writestr("inside.py", "from partage.kernels import kernel\\n"
            "@kernel('void(int64[::1])')\\n"
            "def double(values):\\n"
            "    for i in range(len(values)):\\n"
            "        values[i] *= 2\\n")
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    from inside import double
    values = np.arange(4)
    double(values, work=10**12)
    found = double.compile().stats.cache_hits
    print(values, double.is_compiled, sum(found.values()))
"""
ON_A_LOOP = """
    import asyncio, sys, threading
    import partage as pg
    from partage import kernels

    async def rebalanced():
        names = [f"t{i}" for i in range(50)]
        group = pg.Group([pg.Member(f"m{i}", names) for i in range(50)])
        cluster = pg.Cluster.from_topics(dict.fromkeys(names, 20_000))
        with kernels.never_compiling():
            pg.assign("range", group, cluster)
            before = "numba" in sys.modules, any(one.is_compiled for one in kernels._all)
            warming = kernels.warm_up()
            assert warming is not threading.current_thread()
        await asyncio.to_thread(warming.join)
        return before, all(one.is_compiled for one in kernels._all)

    print(asyncio.run(rebalanced()))
"""

#: Warms up while it counts full garbage collections; prints them, and whether later ones are allowed.
COLLECTIONS = """
    import gc
    from partage import kernels
    import partage.groups.sticky

    full = []
    gc.callbacks.append(lambda phase, info: info["generation"] == 2 and full.append(phase))
    before = gc.get_threshold()
    kernels.warm_up().join()
    print(len(full), gc.get_threshold() == before, gc.get_freeze_count() > 0)
"""

#: A few problems through every kernel of the strategies; prints what ran, and a digest of plans.
PLANS = """
    import hashlib, sys
    import numpy as np
    import partage as pg
    from partage import kernels
    from partage.groups.registry import find
    from partage.model import Problem

    STRATEGIES = ("sticky", "cooperative-sticky", "range", "roundrobin", "server:uniform",
                  "server:range", "optimal")

    def owned(plan, m):
        mine = {}
        for topic, p in plan.to_pairs()[f"member{m}"]:
            mine.setdefault(topic, []).append(p)
        return mine

    def members(chosen, before):
        # Of eleven one leaves, with and without an odd one among the rest.
        names = [f"t{i}" for i in range(7)]
        out = []
        for m in range(10 if before else 11):
            more = {}
            if before is not None:
                mine = owned(before, m)
                more = {"owned": mine, "generation": 3}
                if chosen == "sticky":
                    from partage.wire.consumer_protocol import encode_sticky_user_data as encode
                    pairs = [(t, p) for t, some in mine.items() for p in some]
                    more["user_data"] = encode(pairs, 3)
            out.append(pg.Member(f"member{m}", names[:5] if m == ODD else names, **more))
        return out

    found = hashlib.sha256()
    cluster = pg.Cluster.from_topics({f"t{i}": 9 + i for i in range(7)})
    racked = pg.Cluster.from_topics({f"t{i}": [["a"], ["b"], ["a", "b"]] for i in range(7)})
    with kernels.force_kernel_form(sys.argv[1]):
        for ODD in (-1, 4):
            for chosen in STRATEGIES:
                before = None
                for _ in range(2):
                    group = pg.Group(members(chosen, before))
                    before = find(chosen).assign(Problem(group, cluster)).settled()
                    found.update(before.start.tobytes() + before.partition.tobytes())
                on = [m.replaced(rack="ab"[i % 2]) for i, m in enumerate(group)]
                plan = find(chosen).assign(Problem(pg.Group(on), racked))
                found.update(plan.start.tobytes() + plan.partition.tobytes())
    ready = sum(one.is_compiled for one in kernels._all)
    print(found.hexdigest(), ready)
"""


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def digest(form: str, **environment: str) -> tuple[str, int]:
    """Of all plans; and how many kernels were compiled."""
    done = run(PLANS, form, **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    text, ready = done.stdout.split()
    return text, int(ready)


@pytest.fixture(scope="module")
def plain() -> str:
    """The digest of what plain Python plans."""
    text, ready = digest("interpreted")
    assert ready == 0
    return text


def test_compiled_kernels_plan_the_same(plain) -> None:
    """What a compiler makes of the source decides no partition."""
    text, ready = digest("compiled")
    assert ready > 5
    assert text == plain


@pytest.mark.soak
def test_checked_bounds_plan_the_same(plain, tmp_path) -> None:
    """No index is outside of its array: with NUMBA_BOUNDSCHECK=1 that would be an IndexError.

    Compiled code in Numba's cache knows nothing of the setting, so this has a cache of its own.
    It compiles every kernel again. `make test` runs the same source interpreted, where an index
    beyond an array is an IndexError too.
    """
    text, ready = digest("compiled", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert ready > 5
    assert text == plain


def test_numba_switched_off_is_plain_python(plain) -> None:
    """NUMBA_DISABLE_JIT=1 gives the plain form, not a third one over NumPy's own scalars."""
    assert digest("compiled", NUMBA_DISABLE_JIT="1") == (plain, 0)


def test_the_plain_form_checks_bounds() -> None:
    """The fixture `plain` can fail: a kernel that reads too far is an IndexError in that form."""

    def beyond(values):
        return values[len(values)]

    with force_kernel_form("interpreted"), pytest.raises(IndexError):
        Kernel(beyond, "int64(int64[::1])")(np.arange(3), work=1)


def test_bounds_are_checked_when_asked_for(tmp_path) -> None:
    """The check above can fail: a kernel that reads too far is an IndexError with it."""
    done = run(BEYOND, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert "IndexError" in done.stderr


def test_an_unwritable_cache_is_no_error(tmp_path) -> None:
    """Numba raises where it finds no place for its cache; the kernel is compiled without one."""
    nowhere = {"NUMBA_CACHE_DIR": "/proc/nowhere", "HOME": "/proc/nowhere"}
    done = run(ZIPPED, str(tmp_path / "inside.zip"), **nowhere)
    assert (done.stdout.strip(), done.returncode) == ("[0 2 4 6] True 0", 0), done.stderr[-2000:]


def test_a_kernel_in_a_zip_is_compiled_once_for_all_paths(tmp_path) -> None:
    """Spark's executors have the package's zip at different paths, and share the compiled kernel."""
    cache = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for executor, hits in (("0", 0), ("1", 1)):
        (tmp_path / executor).mkdir()
        done = run(ZIPPED, str(tmp_path / executor / "inside.zip"), **cache)
        assert done.stdout.strip() == f"[0 2 4 6] True {hits}", done.stderr[-2000:]


def test_nothing_compiles_on_an_event_loop() -> None:
    """A large plan on a loop runs without numba; the warm-up is a thread of its own."""
    done = run(ON_A_LOOP)
    assert done.stdout.strip() == "((False, False), True)", done.stderr[-2000:]


def test_the_warm_up_starts_no_full_garbage_collection() -> None:
    """A full collection of Numba's objects would stop the event loop of a consumer."""
    done = run(COLLECTIONS)
    assert done.stdout.strip() == "0 True True", done.stderr[-2000:]
