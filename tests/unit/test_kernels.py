"""Two forms of one source: the same answers, and a choice by cost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import NamedTuple

import numpy as np
import pytest

from partage import kernels
from partage.kernels import Booleans, Int32s, Int64s, kernel


@kernel("int64(int32[::1], int64[::1])")
def running_sum(values, out):
    """Sum into ``out``, and the total."""
    total = 0
    for i in range(len(values)):
        total += values[i]
        out[i] = total
    return total


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_both_forms_give_the_same(form):
    """What is written into an array shows in the caller's array in either form."""
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    out = np.zeros(3, np.int64)
    with kernels.force_kernel_form(form):
        assert running_sum(np.array([1, 2, 3], np.int32), out, work=3) == 6
    assert out.tolist() == [1, 3, 6]


class Totals(NamedTuple):
    """Values and their running totals.

    Attributes:
        value: int32[n].
        flag: boolean[n], whether a value counts.
        total: int64[n].
    """

    value: Int32s
    flag: Booleans
    total: Int64s


@kernel("int64(Totals, int64)", Totals)
def flagged_sum(totals, first):
    """Sum the flagged values into ``total``, from a start value; return the sum."""
    for i in range(len(totals.value)):
        if totals.flag[i]:
            first += totals.value[i]
        totals.total[i] = first
    return first


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_a_kernel_takes_a_record_of_arrays(form):
    """Both forms read and write the arrays of a NamedTuple by name."""
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    totals = Totals(
        np.array([1, 2, 3], np.int32), np.array([True, False, True]), np.zeros(3, np.int64)
    )
    with kernels.force_kernel_form(form):
        assert flagged_sum(totals, 10, work=3) == 14
    assert totals.total.tolist() == [11, 11, 14]


def test_a_cache_survives_the_renaming_of_a_record(tmp_path):
    """A kernel whose record had another name when it was cached compiles anew, without an error."""
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    module = textwrap.dedent("""
        from __future__ import annotations
        from typing import NamedTuple
        from partage.kernels import Int64s, kernel
        class {name}(NamedTuple):
            values: Int64s
        @kernel("int64({name})", {name})
        def first(record):
            return record.values[0]
    """)
    for name in ("Before", "Renamed"):
        (tmp_path / "inside.py").write_text(module.format(name=name))
        code = f"""
            import sys
            sys.path.insert(0, {str(tmp_path)!r})
            import numpy as np, inside
            print(inside.first.compile()(inside.{name}(np.array([7]))))
        """
        assert run(code) == "7"


def run(code: str) -> str:
    """In a fresh interpreter, where nothing is compiled yet."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


LOOP = """
    import sys, threading
    import numpy as np
    from partage import kernels
    def double(values):
        for i in range(len(values)):
            values[i] *= 2
    double = kernels.Kernel(double, "void(int64[::1])")
    values = np.arange(5)
"""


def test_a_small_problem_never_imports_numba():
    """The cold start of a compiler is longer than any small problem."""
    assert run(LOOP + "    double(values, work=5); print(values, 'numba' in sys.modules)") == (
        "[0 2 4 6 8] False"
    )


def test_a_large_problem_compiles_but_not_on_a_poll_thread():
    """Inside never_compiling even a huge estimate runs interpreted."""
    code = """
    with kernels.never_compiling():
        double(values, work=10**12)
    print(double.is_compiled)
    double(values, work=10**12)
    print(double.is_compiled, values)
    """
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    assert run(LOOP + code).split("\n") == ["False", "True [ 0  4  8 12 16]"]


def test_without_numba_everything_runs_interpreted():
    """The extra is an extra: no error, the same answer."""
    code = """
    sys.modules["numba"] = None
    double(values, work=10**12)
    print(values, double.is_compiled)
    """
    assert run(LOOP + code) == "[0 2 4 6 8] False"


def test_a_source_that_cannot_be_cached_is_compiled_without_a_cache():
    """Numba raises for a function without a file (or an unwritable folder); we do not."""
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    assert run(LOOP + "    double.compile()(values); print(values)") == "[0 2 4 6 8]"


def test_a_compilation_is_announced_and_a_read_from_disk_is_not(tmp_path):
    """One name a kernel before it is compiled, its pieces included; from the cache there is none."""
    pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
    (tmp_path / "doubling.py").write_text(
        textwrap.dedent("""
        from partage import kernels
        @kernels.kernel_helper
        def doubled(value):
            return value * 2
        def twice(values):
            for i in range(len(values)):
                values[i] = doubled(values[i])
        first = kernels.Kernel(twice, "void(int64[::1])")
        second = kernels.Kernel(twice, "void(int64[::1])")
    """)
    )
    said = run(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import numpy as np
        from doubling import first, kernels, second
        said, values = [], np.arange(3)
        with kernels.force_kernel_form("compiled"):
            with kernels.report_compilation(lambda name: said.append((name, first.is_compiled))):
                first(values, work=1)
                first(values, work=1)
            with kernels.report_compilation(lambda name: said.append("again " + name)):
                second(values, work=1)
        print(said, values)
    """)
    assert said == "[('twice', False)] [ 0  8 16]"


def test_a_piece_of_another_file_that_changes_makes_another_kernel(monkeypatch):
    """Numba's cache looks at the kernel's own file: others that it is made of are in its name."""
    from partage.wire.columns.commit_kernel import read_commits

    before = kernels._hash_called_code(read_commits.interpreted, {})
    sources = []
    monkeypatch.setattr(
        "partage.kernels.inspect.getsource", lambda module: sources.append(module.__name__) or "x"
    )
    assert before not in {"", kernels._hash_called_code(read_commits.interpreted, {})}
    assert sources == ["partage.wire.columns.distinct"]
    assert kernels._hash_called_code(running_sum.interpreted, {}) == ""
