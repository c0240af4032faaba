"""Compiled kernels (inner loops): the only module that uses Numba.

A kernel is a plain Python function over arrays with an explicit signature. Two forms of the same
source can run: compiled by Numba (the extra ``fast``), or interpreted over memoryviews of the same
arrays. Each call chooses the form by the estimated work, including the start: importing Numba takes
0.6 to 0.9 s and loading a kernel from its cache 0.1 to 0.4 s more, which a small problem never
saves.

Rules for a kernel:

* it only indexes arrays and computes with integers and floats: the interpreted form gets
  memoryviews, which have ``len`` and items, and nothing of NumPy;
* arithmetic that must wrap is masked, so that both forms wrap alike;
* a kernel over untrusted bytes checks its own bounds;
* a kernel of more than eight arguments takes a record: a NamedTuple of arrays whose annotations
  are the names below (`Int32s` and the like), so that each field is documented and typed once;
* no ``parallel``, no global state;
* it only calls functions that are declared as a `kernel_helper`.

Live clients must not compile on a poll thread or an event loop, because compilation blocks
heartbeats for seconds: inside `never_compiling` a kernel that is not compiled runs interpreted, and
`warm_up` compiles it in the background.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zipimport import zipimporter

import numpy as np
import numpy.typing as npt

__all__ = [
    "Booleans",
    "Bytes",
    "Float64Rows",
    "Float64s",
    "Int8s",
    "Int16Rows",
    "Int32Rows",
    "Int32s",
    "Int64Blocks",
    "Int64Rows",
    "Int64s",
    "Kernel",
    "ReadOnlyBytes",
    "ReadOnlyInt32s",
    "ReadOnlyInt64s",
    "UInt64s",
    "force_kernel_form",
    "inline_piece",
    "kernel",
    "kernel_helper",
    "never_compiling",
    "prefetch_item",
    "report_compilation",
    "start_warm_up",
    "warm_up",
]

#: Measured on the 2-core machine of November 2026 (CPython 3.11, numba 0.6x).
_SECONDS_TO_IMPORT_NUMBA = 0.8
_SECONDS_TO_LOAD_A_KERNEL = 0.4
_SECONDS_A_STEP_INTERPRETED = 0.25e-6

Form = Literal["by cost", "compiled", "interpreted"]
_form: ContextVar[Form] = ContextVar("partage_kernel_form", default="by cost")
_may_compile: ContextVar[bool] = ContextVar("partage_may_compile", default=True)
_report: ContextVar[Callable[[str], None] | None] = ContextVar(
    "partage_kernel_report", default=None
)
_all: list[Kernel] = []
_pieces: dict[Any, Any] = {}
_pieces_lock = threading.Lock()
_is_warming = False


#: Threshold of the oldest generation at which Python starts no full garbage collection.
_NEVER_REACHED = 2**30

#: Types of a record's fields. The first seven are one-dimensional, blocks have three dimensions.
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Int8s: TypeAlias = npt.NDArray[np.int8]
Float64s: TypeAlias = npt.NDArray[np.float64]
Int16Rows: TypeAlias = npt.NDArray[np.int16]
Int32Rows: TypeAlias = npt.NDArray[np.int32]
Int64Rows: TypeAlias = npt.NDArray[np.int64]
Int64Blocks: TypeAlias = npt.NDArray[np.int64]
Float64Rows: TypeAlias = npt.NDArray[np.float64]
#: Arrays without permission to write, as buffers of Arrow are.
ReadOnlyBytes: TypeAlias = npt.NDArray[np.uint8]
ReadOnlyInt32s: TypeAlias = npt.NDArray[np.int32]
ReadOnlyInt64s: TypeAlias = npt.NDArray[np.int64]
#: Numba's type of a record's field, by its annotation; other annotations name another record.
_FIELD_TYPES = {
    "Int32s": "int32[::1]",
    "Int64s": "int64[::1]",
    "UInt64s": "uint64[::1]",
    "Booleans": "boolean[::1]",
    "Bytes": "uint8[::1]",
    "Int8s": "int8[::1]",
    "Float64s": "float64[::1]",
    "Int16Rows": "int16[:, ::1]",
    "Int32Rows": "int32[:, ::1]",
    "Int64Rows": "int64[:, ::1]",
    "Int64Blocks": "int64[:, :, ::1]",
    "Float64Rows": "float64[:, ::1]",
    "ReadOnlyBytes": "Array(uint8, 1, 'C', readonly=True)",
    "ReadOnlyInt32s": "Array(int32, 1, 'C', readonly=True)",
    "ReadOnlyInt64s": "Array(int64, 1, 'C', readonly=True)",
    "int": "int64",
    "bool": "boolean",
}


class Kernel:
    """Numeric function that runs either compiled by Numba or as plain Python.

    Each call passes an estimate of its work. A call with little work runs as plain Python, because
    importing Numba and loading compiled code takes up to a second.

    >>> @kernel("int64(int64[::1])")
    ... def total(values):
    ...     out = 0
    ...     for i in range(len(values)):
    ...         out += values[i]
    ...     return out
    >>> total(np.arange(4), work=4)
    6
    """

    def __init__(
        self, function: Callable[..., Any], signature: str, records: tuple[type, ...] = ()
    ) -> None:
        self.interpreted = function
        self.signature = signature
        self._records = {record.__name__: record for record in records}
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._compiled: Callable[..., Any] | None = None
        self._lock = threading.Lock()
        self._impossible = False

    def __call__(self, *arguments: Any, work: int) -> Any:
        """Run the numeric function, compiled by Numba if that is faster for this amount of work.

        The keyword ``work`` is the estimated number of steps (loop iterations) of the call. Without
        compilation, NumPy arrays are passed as memoryviews.
        """
        compiled = self._compiled
        if compiled is None or _form.get() != "by cost":
            compiled = self._form_for(work)
        if compiled is not None:
            return compiled(*arguments)
        return self.interpreted(*(_as_memoryview(argument) for argument in arguments))

    @property
    def is_compiled(self) -> bool:
        """True if this process has already compiled the function, or loaded it from Numba's cache.

        Such a function is fast for any input, because no call has to wait for the compiler.
        """
        return self._compiled is not None

    def is_worth_compiling(self, *, work: int) -> bool:
        """Return whether a call with this much work would run in the form compiled by Numba.

        Callers that have faster code than uncompiled Python use it to choose between the two.

        Args:
            work: estimated number of steps of an interpreted call.
        """
        # A caller that has faster code than an interpreted kernel asks this first.
        return self._form_for(work) is not None

    def compile(self) -> Callable[..., Any] | None:
        """Compile the function with Numba, unless that is already done, and return the compiled
        form.

        The result is None if Numba is not installed, or if its compiler is switched off
        (``NUMBA_DISABLE_JIT``).
        """
        with self._lock:
            if self._compiled is None and not self._impossible:
                self._compiled = _compiled(self.interpreted, self.signature, self._records)
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


def kernel(signature: str, *records: type) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorate a numeric function so that its calls can run compiled by Numba.

    The result is a `Kernel`, whose calls need a further argument ``work``, the estimated number of
    steps. The signature has Numba's form, such as ``"void(int32[::1], int64)"``. It may name
    NamedTuple classes of arrays (``records``).

    Args:
        signature: types of the result and of the arguments.
        records: the NamedTuple classes that the signature names.

    >>> from typing import NamedTuple
    >>> class Tree(NamedTuple):
    ...     parent: Int32s
    ...     depth: Int64s
    >>> @kernel("int64(Tree, int64)", Tree)
    ... def parent_depth(tree, node):
    ...     return tree.depth[tree.parent[node]]
    >>> parent_depth(Tree(np.array([0, 0], np.int32), np.array([5, 6])), 1, work=2)
    5
    """

    def declare(function: Callable[..., Any]) -> Kernel:
        made = Kernel(function, signature, records)
        _all.append(made)
        return made

    return declare


def kernel_helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a helper function so that Numba-compiled functions (`Kernel`) can call it.

    A compiled caller uses the helper's compiled form, an interpreted caller the Python function.
    """
    # A compiled kernel calls the compiled helper, an interpreted kernel the Python function. A
    # kernel in another module must import the helper by name, so that `_hash_called_code` finds it.
    function.__dict__["is_piece"] = True
    return function


def inline_piece(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a helper function whose code Numba copies into the compiled functions that call it.

    This saves the cost of a call, which is high for a helper that takes many arrays. Callers are
    functions decorated with `kernel`.
    """
    # This is faster for a helper that takes a record: an ordinary call copies seven words for each
    # array of the record.
    function.__dict__["is_inline"] = True
    return kernel_helper(function)


@kernel_helper
def prefetch_item(array: Any, item_index: int) -> None:
    """Load an array item into the processor's cache before it is needed.

    Only Numba-compiled functions do so; in plain Python the call has no effect.
    """


def _create_prefetch_intrinsic() -> Any:
    """Create the Numba intrinsic that emits LLVM's prefetch instruction.

    Compiled functions use it for calls of `prefetch_item`, which load an array item into the
    processor's cache in advance.
    """
    from llvmlite import ir  # type: ignore[import-untyped]  # it has none
    from numba import types
    from numba.extending import intrinsic

    def typed(context: Any, array: Any, at: Any) -> Any:
        del context

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            byte = ir.IntType(8).as_pointer()
            number = ir.IntType(32)
            line = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            # To be read; to be kept in all caches; data.
            builder.call(call, [line, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, at), generate

    return intrinsic(typed)


def _link_helpers(function: Callable[..., Any], **options: Any) -> Any:
    """Return a copy of a function that calls its helper functions in Numba's compiled form.

    Helpers are the functions decorated with `kernel_helper`. Each is compiled once and shared by
    all its callers. A function without helpers is returned unchanged.
    """
    # A helper (`kernel_helper`) is compiled once for all kernels: a quarter less time for the first
    # compilation.
    import types

    import numba

    names = function.__globals__
    made: dict[str, Any] = {}
    for name in function.__code__.co_names:
        one: Any = names.get(name)
        if getattr(one, "is_piece", False):
            if one is prefetch_item:
                _pieces[one] = _pieces.get(one) or _create_prefetch_intrinsic()
            elif one not in _pieces:
                _pieces[one] = None  # stops a recursion here; Numba rejects it itself
                alone = {
                    **options,
                    "no_cpython_wrapper": True,
                    "forceinline": getattr(one, "is_inline", False),
                }
                _pieces[one] = _unify_integer_types(
                    numba.njit(**alone)(_link_helpers(one, **options))
                )
            made[name] = _pieces[one]
    if not made:
        return function
    twin = types.FunctionType(function.__code__, {**names, **made}, function.__name__)
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    return twin


def _unify_integer_types(helper: Any) -> Any:
    """Make Numba compile a helper function only once for all integer types of its arguments.

    Numba would otherwise compile a version for each of int32, int64 and literal integers. The
    helper, which is returned, now treats them all as int64; only uint64 remains separate.
    """
    # Numba would compile it again for an int literal, an int32 and an int64.
    from numba import types

    chosen = helper.get_call_template

    def with_int64(given: Any, named: Any) -> Any:
        return chosen([_widest(types, one) for one in given], named)

    helper.get_call_template = with_int64
    return helper


def _widest(types: Any, one: Any) -> Any:
    one = types.unliteral(one)
    number = isinstance(one, (types.Integer, types.Boolean)) and one != types.uint64
    return types.int64 if number else one


def _modules_called_by(function: Callable[..., Any], visited: set[str]) -> set[str]:
    """Return the names of the Python modules with code that a Numba-compiled function calls.

    A change in one of these modules requires a new compilation.

    Args:
        function: the function; its own module is included.
        visited: set to which the names are added; it is also the result.
    """
    visited.add(function.__module__)
    names = function.__globals__
    for name in function.__code__.co_names:
        one: Any = names.get(name)
        if getattr(one, "is_piece", False) and one is not function:
            _modules_called_by(one, visited)
    return visited


def _hash_called_code(function: Callable[..., Any], records: dict[str, type]) -> str:
    """Return a hash of the code in other modules that a Numba-compiled function uses.

    The hash becomes part of the function's key in Numba's disk cache, so that a change in such a
    module causes a new compilation. It is empty for a function that uses no other module.
    """
    # It becomes part of the kernel's name in Numba's cache, because that cache only notices changes
    # of the kernel's own file. The result is empty for a kernel without helper functions and record
    # classes.
    others = sorted(_modules_called_by(function, set()) - {function.__module__})
    texts = [inspect.getsource(sys.modules[one]) for one in others]
    texts += [f"{one.__module__}.{name}{one.__annotations__}" for name, one in records.items()]
    return f"_{zlib.crc32(''.join(texts).encode()):08x}" if texts else ""


def _parse_signature(signature: str, records: dict[str, type]) -> Any:
    """Convert the text of a Numba signature, such as ``"int64(Tree, int64)"``, to a Numba type.

    Unlike Numba's own signatures, it may name NamedTuple classes of arrays (``Tree``).

    Args:
        signature: types of the result and of the arguments.
        records: the NamedTuple classes that the signature names, by name.
    """
    import numba.core.sigutils as numba_signatures
    from numba import types

    normalize: Any = numba_signatures.normalize_signature
    tuple_types: Any = types.BaseTuple

    def parse(name: str) -> Any:
        if name not in records:
            return normalize(f"void({name})")[0][0]
        record = records[name]
        # `NamedTuple` wraps annotations that are text in a ForwardRef.
        kinds: list[Any] = [
            getattr(one, "__forward_arg__", one) for one in record.__annotations__.values()
        ]
        fields = [parse(_FIELD_TYPES.get(kind, kind)) for kind in kinds]
        return tuple_types.from_types(fields, record)

    result, _, rest = signature.partition("(")
    # A comma inside brackets or parentheses belongs to the type of an array.
    arguments = re.split(r",\s*(?![^\[(]*[\])])", rest.removesuffix(")"))
    return getattr(types, result)(*map(parse, arguments))


def _compiled(
    function: Callable[..., Any], signature: str, records: dict[str, type]
) -> Callable[..., Any] | None:
    try:
        import numba
    except ImportError:
        return None
    # No kernel owns an array: without reference counts a kernel of many pieces is twice as fast.
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # made at run time
        return None  # JIT is off: plain Python over memoryviews
    options: dict[str, Any] = {
        "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True,
    }  # fmt: skip
    stamp = _hash_called_code(function, records)
    with _pieces_lock:
        function = _link_helpers(function, **options)
    function.__qualname__ += stamp if stamp not in function.__qualname__ else ""
    function = _with_source_file(function)
    typed = _parse_signature(signature, records) if records else signature
    with _report_compilation(function.__name__):
        try:
            made: Callable[..., Any] = numba.njit(typed, cache=True, **options)(function)
        except (RuntimeError, OSError):
            # The cache cannot be written (a read-only installation, a zip): compile without it.
            made = numba.njit(typed, **options)(function)
    return made


def _with_source_file(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a zipped module with a copy of its source file, for Numba's cache.

    Functions of other modules are returned unchanged, and so are all if the copy cannot be written.
    """
    # Spark gives each executor of each run another path of the package's zip. Numba's cache depends
    # on the path, so each of them would compile all kernels. The copy has the same path for all.
    import types
    from hashlib import sha256
    from tempfile import NamedTemporaryFile

    path = Path(function.__code__.co_filename)
    loader = getattr(sys.modules.get(function.__module__), "__loader__", None)
    source = loader.get_source(function.__module__) if isinstance(loader, zipimporter) else None
    if source is None or path.exists():
        return function
    digest = sha256(source.encode()).hexdigest()[:16]
    copied = _source_folder() / f"{function.__module__}-{digest}" / path.name
    if not copied.exists():
        try:
            copied.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with NamedTemporaryFile("w", dir=copied.parent, delete=False, encoding="utf-8") as file:
                file.write(source)
            Path(file.name).replace(copied)
        except OSError:
            return function
    code = function.__code__.replace(co_filename=str(copied))
    twin = types.FunctionType(code, function.__globals__, function.__name__)
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    return twin


def _source_folder() -> Path:
    """Return the folder to which source files of zipped modules are copied for Numba's cache.

    It is a folder below Numba's own cache, or below the user's cache.
    """
    numba_folder = os.environ.get("NUMBA_CACHE_DIR")
    users_folder = os.environ.get("XDG_CACHE_HOME")
    if not users_folder:
        # Path.expanduser raises an error where a container's user has no home folder.
        users_folder = os.path.expanduser("~/.cache")  # noqa: PTH111 - see above
    return Path(numba_folder or users_folder) / "partage-kernels"


@contextmanager
def _report_compilation(name: str) -> Iterator[None]:
    """Report that Numba compiles a function inside a ``with`` block.

    The function's name goes to the callback of `report_compilation`, if there is one. Loading from
    Numba's cache is not reported.
    """
    report = _report.get()
    if report is None:
        yield
        return
    with _listener(report, name):
        yield


def _listener(report: Callable[[str], None], name: str) -> AbstractContextManager[Any]:
    # Numba's own event occurs when something is compiled, not when it is read from the cache.
    from numba.core import event

    class Once(event.Listener):
        def __init__(self) -> None:
            self.reported = False

        def on_start(self, event: Any) -> None:
            del event
            if not self.reported:
                self.reported = True
                report(name)

        def on_end(self, event: Any) -> None:
            pass

    listener: AbstractContextManager[Any] = event.install_listener("numba:compile", Once())
    return listener


class _UnalignedWords:
    """Sequence of 8-byte integers in a buffer, at addresses that need not be multiples of 8.

    A numeric function that runs as plain Python, without Numba, gets memoryviews in place of
    arrays. A memoryview cannot contain unaligned items, so this class replaces it.
    """

    # It replaces a memoryview, which cannot have unaligned items, in an interpreted kernel.

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, at: int) -> int:
        return int(self._words[at])

    def __setitem__(self, at: int, word: int) -> None:
        self._words[at] = word


def _as_memoryview(argument: Any) -> Any:
    """Convert a NumPy array to a memoryview, whose items plain Python reads four times faster.

    The arrays in a tuple are converted too; NumPy scalars become Python numbers, and other values
    are returned unchanged.
    """
    if isinstance(argument, np.ndarray):
        if not argument.flags.aligned:
            return _UnalignedWords(argument)
        return argument.view(np.uint8).data if argument.dtype == np.bool_ else argument.data
    if isinstance(argument, tuple):
        return type(argument)(*map(_as_memoryview, argument))
    return argument.item() if isinstance(argument, np.generic) else argument


@contextmanager
def force_kernel_form(chosen: Form) -> Iterator[None]:
    """Run all Numba functions compiled, or all as plain Python, inside a ``with`` block.

    Tests use it to compare both forms of the same function.

    Args:
        chosen: "compiled", "interpreted" or "by cost" (the default behaviour).
    """
    token = _form.set(chosen)
    try:
        yield
    finally:
        _form.reset(token)


@contextmanager
def never_compiling() -> Iterator[None]:
    """Prevent Numba from compiling functions inside a ``with`` block.

    Functions that are not compiled yet run as plain Python. Event loops and threads that poll Kafka
    use this, because a compilation takes seconds and would delay heartbeats.
    """
    # Threads that poll Kafka and event loops use it.
    token = _may_compile.set(False)
    try:
        yield
    finally:
        _may_compile.reset(token)


@contextmanager
def report_compilation(report: Callable[[str], None]) -> Iterator[None]:
    """Call ``report`` with the name of each function that Numba compiles inside a ``with`` block.

    Commands use it to show progress, because the first compilation on a machine takes seconds.
    """
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def warm_up() -> threading.Thread:
    """Start to compile all Numba functions in a background thread, and return the thread.

    Later calls then run compiled at once. Full garbage collections are suspended meanwhile, because
    they would pause a consumer's event loop. The objects that exist at the end are exempt from
    later collections (`gc.freeze`).
    """
    thread = threading.Thread(target=_compile_all, name="partage-warm-up", daemon=True)
    thread.start()
    return thread


def _compile_all() -> None:
    # Numba leaves several hundred thousand objects. A full collection that visits them stops all
    # threads for 40 to 90 ms, and with them the event loop of a consumer.
    before = gc.get_threshold()
    paused = (*before[:2], _NEVER_REACHED)
    gc.set_threshold(*paused)
    try:
        for one in tuple(_all):
            one.compile()
    finally:
        gc.freeze()
        if gc.get_threshold() == paused:
            gc.set_threshold(*before)


def start_warm_up() -> threading.Thread | None:
    """Start to compile all Numba functions in the background, once per process.

    Return the thread, or None if the process has already started it. Functions that an earlier
    process compiled are read from Numba's cache on disk. See `warm_up`.
    """
    global _is_warming  # noqa: PLW0603 - one for the process
    with _pieces_lock:
        if _is_warming:
            return None
        _is_warming = True
    return warm_up()
