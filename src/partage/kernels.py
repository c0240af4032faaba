"""The one door to compiled kernels.

A kernel is a plain Python function over arrays with an explicit signature. Two forms of the
same source can run: compiled by Numba (the extra ``fast``), or interpreted over memoryviews
of the same arrays. Which one runs is decided call by call from the estimated work, cold
start included: importing Numba takes 0.6 to 0.9 s and a kernel from its cache 0.1 to 0.4 s
more, which a small problem never earns back. Ahead-of-time compiled code could stand behind
this door later.

Rules for a kernel:

* it indexes arrays and does integer and float arithmetic, no more: the interpreted form gets
  memoryviews, which have ``len`` and items, and nothing of NumPy;
* arithmetic that shall wrap is masked, so that both forms wrap alike;
* a kernel over foreign bytes checks its own bounds;
* no ``parallel``, no global state;
* it calls no function but those that are declared as a `piece`.

Live clients must not compile on a poll thread or an event loop (it froze heartbeats for
seconds): inside `never_compiling` a kernel that is not ready yet runs interpreted, and
`warm_up` makes it ready in the background.
"""

from __future__ import annotations

import inspect
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import numpy as np

__all__ = [
    "Kernel",
    "compiling_told",
    "form",
    "kernel",
    "never_compiling",
    "piece",
    "prefetch",
    "warm_up",
]

#: Measured on the 2-core machine of November 2026 (CPython 3.11, numba 0.6x).
_SECONDS_TO_IMPORT_NUMBA = 0.8
_SECONDS_TO_LOAD_A_KERNEL = 0.4
_SECONDS_A_STEP_INTERPRETED = 0.25e-6

Form = Literal["by cost", "compiled", "interpreted"]
_form: ContextVar[Form] = ContextVar("partage_kernel_form", default="by cost")
_may_compile: ContextVar[bool] = ContextVar("partage_may_compile", default=True)
_tell: ContextVar[Callable[[str], None] | None] = ContextVar("partage_kernel_tell", default=None)
_all: list[Kernel] = []
_pieces: dict[Any, Any] = {}
_pieces_lock = threading.Lock()


class Kernel:
    """A function in two forms; call it with its arrays and an estimate of its steps.

    >>> @kernel("int64(int64[::1])")
    ... def total(values):
    ...     out = 0
    ...     for i in range(len(values)):
    ...         out += values[i]
    ...     return out
    >>> total(np.arange(4), work=4)
    6
    """

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.interpreted = function
        self.signature = signature
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._compiled: Callable[..., Any] | None = None
        self._lock = threading.Lock()
        self._impossible = False

    def __call__(self, *arguments: Any, work: int) -> Any:
        """Run the form that is sooner done with about ``work`` steps."""
        compiled = self._form_for(work)
        if compiled is not None:
            return compiled(*arguments)
        return self.interpreted(*(_viewed(one) for one in arguments))

    @property
    def ready(self) -> bool:
        """Whether the compiled form is there."""
        return self._compiled is not None

    def pays(self, *, work: int) -> bool:
        """Whether about ``work`` steps would run compiled; for callers that have another way."""
        return self._form_for(work) is not None

    def compile(self) -> Callable[..., Any] | None:
        """The compiled form, made now if need be; None where Numba is not installed."""
        with self._lock:
            if self._compiled is None and not self._impossible:
                self._compiled = _compiled(self.interpreted, self.signature)
                self._impossible = self._compiled is None
        return self._compiled

    def _form_for(self, work: int) -> Callable[..., Any] | None:
        chosen = _form.get()
        if chosen == "interpreted":
            return None
        if chosen == "compiled":
            return self.compile()
        if self._compiled is not None or self._impossible:
            return self._compiled
        cold = _SECONDS_TO_LOAD_A_KERNEL
        if "numba" not in sys.modules:
            cold += _SECONDS_TO_IMPORT_NUMBA
        if not _may_compile.get() or work * _SECONDS_A_STEP_INTERPRETED < cold:
            return None
        return self.compile()


def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel with Numba's signature of it, e.g. ``"void(int32[::1], int64)"``."""

    def declared(function: Callable[..., Any]) -> Kernel:
        made = Kernel(function, signature)
        _all.append(made)
        return made

    return declared


def piece(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a part of kernels: a function that kernels may call.

    Interpreted it is what it is; `_compiled` puts its compiled form in its place. It may stand in
    another module, which imports it by its name: see `_stamp`.
    """
    function.__dict__["is_piece"] = True
    return function


@piece
def prefetch(array: Any, at: int) -> None:
    """The processor may bring an array's line near by, for somebody who reads it some time later.

    A load that the memory has not answered stands in the way of hundreds of instructions behind
    it; this asks and goes on. Interpreted it is nothing.
    """


def _prefetching() -> Any:
    """LLVM's instruction of that name."""
    from llvmlite import ir  # type: ignore[import-untyped]  # it has none
    from numba import types
    from numba.extending import intrinsic

    def typed(context: Any, array: Any, at: Any) -> Any:
        del context

        def asked(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            byte = ir.IntType(8).as_pointer()
            number = ir.IntType(32)
            line = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            # To be read; to be kept in all caches; data.
            builder.call(call, [line, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, at), asked

    return intrinsic(typed)


def _with_pieces(function: Callable[..., Any], **options: Any) -> Any:
    """The function with every piece that it may call replaced by the compiled one.

    A piece is compiled once, however many kernels call it: a quarter of the first start.
    """
    import types

    import numba

    names = function.__globals__
    made: dict[str, Any] = {}
    for name in function.__code__.co_names:
        one: Any = names.get(name)
        if getattr(one, "is_piece", False):
            if one is prefetch:
                _pieces[one] = _pieces.get(one) or _prefetching()
            elif one not in _pieces:
                _pieces[one] = None  # no endless descent; numba itself refuses a recursion
                alone = {**options, "no_cpython_wrapper": True}
                _pieces[one] = _plain(numba.njit(**alone)(_with_pieces(one, **options)))
            made[name] = _pieces[one]
    if not made:
        return function
    twin = types.FunctionType(function.__code__, {**names, **made}, function.__name__)
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    return twin


def _plain(piece: Any) -> Any:
    """The piece, compiled once and not once for every number that it is called with.

    To Numba ``1``, an int32 and an int64 are three types; a quarter of all compiling was that.
    """
    from numba import types

    chosen = piece.get_call_template

    def with_int64(given: Any, named: Any) -> Any:
        return chosen([_widest(types, one) for one in given], named)

    piece.get_call_template = with_int64
    return piece


def _widest(types: Any, one: Any) -> Any:
    one = types.unliteral(one)
    number = isinstance(one, (types.Integer, types.Boolean)) and one != types.uint64
    return types.int64 if number else one


def _modules(function: Callable[..., Any], seen: set[str]) -> set[str]:
    """The modules of a function and of all pieces that it may call."""
    seen.add(function.__module__)
    names = function.__globals__
    for name in function.__code__.co_names:
        one: Any = names.get(name)
        if getattr(one, "is_piece", False) and one is not function:
            _modules(one, seen)
    return seen


def _stamp(function: Callable[..., Any]) -> str:
    """What tells apart kernels whose pieces differ; empty where all stand in one file.

    Numba's cache looks at the file of the kernel alone: with other pieces it needs another name.
    """
    others = sorted(_modules(function, set()) - {function.__module__})
    if not others:
        return ""
    texts = (inspect.getsource(sys.modules[one]) for one in others)
    return f"_{zlib.crc32(''.join(texts).encode()):08x}"


def _compiled(function: Callable[..., Any], signature: str) -> Callable[..., Any] | None:
    try:
        import numba
    except ImportError:
        return None
    # No kernel owns an array: without counting references a kernel of many pieces is twice as fast.
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # made at run time
        return None  # what "off" means: plain Python, over memoryviews as ever
    options: dict[str, Any] = {
        "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True,
    }  # fmt: skip
    stamp = _stamp(function)
    with _pieces_lock:
        function = _with_pieces(function, **options)
    function.__qualname__ += stamp if stamp not in function.__qualname__ else ""
    with _told(function.__name__):
        try:
            made: Callable[..., Any] = numba.njit(signature, cache=True, **options)(function)
        except (RuntimeError, OSError):
            # The cache cannot be written (a read-only installation, a zip): compile without it.
            made = numba.njit(signature, **options)(function)
    return made


@contextmanager
def _told(name: str) -> Iterator[None]:
    """While a kernel is read or compiled: whoever wants to know of compilations is told."""
    tell = _tell.get()
    if tell is None:
        yield
        return
    with _listening(tell, name):
        yield


def _listening(tell: Callable[[str], None], name: str) -> AbstractContextManager[Any]:
    # Numba's own event: it comes when something is compiled, and not when it is read from disk.
    from numba.core import event

    class Once(event.Listener):
        def __init__(self) -> None:
            self.said = False

        def on_start(self, event: Any) -> None:
            del event
            if not self.said:
                self.said = True
                tell(name)

        def on_end(self, event: Any) -> None:
            pass

    listening: AbstractContextManager[Any] = event.install_listener("numba:compile", Once())
    return listening


class _Unaligned:
    """Words that begin at any byte, for the interpreted form: no memoryview has them."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, at: int) -> int:
        return int(self._words[at])

    def __setitem__(self, at: int, word: int) -> None:
        self._words[at] = word


def _viewed(argument: Any) -> Any:
    """Items of a memoryview are Python's own numbers: four times faster than NumPy's."""
    if isinstance(argument, np.ndarray):
        if not argument.flags.aligned:
            return _Unaligned(argument)
        return argument.view(np.uint8).data if argument.dtype == np.bool_ else argument.data
    return argument.item() if isinstance(argument, np.generic) else argument


@contextmanager
def form(chosen: Form) -> Iterator[None]:
    """Force one of the two inside a with block, for tests and benchmarks."""
    token = _form.set(chosen)
    try:
        yield
    finally:
        _form.reset(token)


@contextmanager
def never_compiling() -> Iterator[None]:
    """For poll threads and event loops: what is not ready yet runs interpreted."""
    token = _may_compile.set(False)
    try:
        yield
    finally:
        _may_compile.reset(token)


@contextmanager
def compiling_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Inside a with block ``tell`` gets the name of each kernel that has to be compiled first.

    That takes seconds, once for an installation: who waits should know what for.
    """
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def warm_up() -> threading.Thread:
    """Compile every declared kernel in the background; join the thread to wait for it."""

    def all_of_them() -> None:
        for one in tuple(_all):
            one.compile()

    thread = threading.Thread(target=all_of_them, name="partage-warm-up", daemon=True)
    thread.start()
    return thread
