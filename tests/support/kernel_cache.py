"""Compiled kernels that several test processes need: one compiles, the others read Numba's cache."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from partage import kernels


def compile_each_once(folder: Path) -> None:
    """Let a test process wait while another one compiles the same kernel of the package.

    In a fresh clone the processes would otherwise compile the same kernels at the same time. After
    the wait, Numba finds the kernel in its cache.

    Args:
        folder: for the lock files; the same in all processes.
    """
    compiled = kernels._compiled

    def compiled_once(function: Callable[..., Any], *more: Any) -> Callable[..., Any] | None:
        if not function.__module__.startswith("partage."):
            return compiled(function, *more)
        with (folder / f"{function.__module__}.{function.__name__}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return compiled(function, *more)

    kernels._compiled = compiled_once
