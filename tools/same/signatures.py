"""The public signatures: names, parameters and subcommands that users depend on."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import partage as pg
from same.plain import plain
from same.renames import find

__all__ = ["signatures"]

# Names that design.md lists as stable beside those of `partage` itself.
_STABLE = (
    "partage.groups.registry.find",
    "partage.clients.shared.Consumer",
    "partage.clients.shared.Joined",
    "partage.clients.shared.ClusterView",
    "partage.wire.group_log.decode_record",
    "partage.wire.consumer_protocol.encode_subscription",
    "partage.wire.consumer_protocol.decode_subscription",
    "partage.wire.consumer_protocol.encode_assignment",
    "partage.wire.consumer_protocol.decode_assignment",
    "partage.kernels.warm_up",
)


def signatures() -> list[str]:
    """Return one line for each public name, parameter list, attribute and option, sorted."""
    lines = [f"stub {name}" for name in _stub_names()]
    for name in pg.__all__:
        lines += _describe(f"partage.{name}", getattr(pg, name))
    for name in _STABLE:
        lines += _describe(name, find(name))
    lines += [f"strategy {name}" for name in pg.strategies()]
    lines += [f"partitioner {name}" for name in pg.partitioners()]
    lines += _commands()
    return sorted(set(lines))


def _stub_names() -> set[str]:
    """Return the names that type checkers see in `partage`: in its stub, or in its own source."""
    source = Path(pg.__file__)
    stub = source.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else source).read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("partage")
        for alias in node.names
    }
    if "*" in names:
        names = names - {"*"} | set(find("partage.errors").__all__)
    return names


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{_parameters(value)}"
        if is_dataclass(value):
            yield from (f"field {name}.{one.name}: {one.type}" for one in fields(value))
        for attribute, member in inspect.getmembers(value):
            if attribute.startswith("_"):
                continue
            kind = "method" if callable(member) else "attribute"
            yield f"{kind} {name}.{attribute}{_parameters(member) if callable(member) else ''}"
    elif callable(value):
        yield f"function {name}{_parameters(value)}"
    else:
        yield f"value {name}: {type(value).__name__}"


def _parameters(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def _commands() -> Iterator[str]:
    import typer

    yield from _options("partage", typer.main.get_command(find("partage.cli.app.app")))


def _options(path: str, command: Any) -> Iterator[str]:
    """Yield a command's arguments and options with types and defaults, without help texts."""
    yield f"command {path}"
    for one in command.params:
        names = "/".join([*one.opts, *one.secondary_opts])
        default = None if callable(one.default) else plain(one.default)
        kind = [word for word in ("required", "multiple", "is_flag") if getattr(one, word, False)]
        yield f"option {path} {names} {' '.join(kind)} nargs={one.nargs} default={default}"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _options(f"{path} {name}", inner)
