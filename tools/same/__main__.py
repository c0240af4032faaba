"""Compare this checkout with another version on equal inputs: ``python tools/same BASE``.

Exit codes: 0 the versions are equal, 1 they differ, 2 the base cannot be built or run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from same.environments import ROOT, Version, base_version, current_version
from same.probe import PARTS
from same.renames import rename_text, rename_words

CASES = 2_000
LINES_SHOWN = 5
WIDTH = 400


def main() -> int:
    """Run both versions, print what differs, return the exit code."""
    parser = argparse.ArgumentParser(prog="make same")
    parser.add_argument("base", nargs="?", default="before-house", help="tag or commit")
    parser.add_argument("--parts", default=os.environ.get("PARTAGE_SAME_PARTS", ",".join(PARTS)))
    arguments = parser.parse_args()
    cases = os.environ.get("PARTAGE_SAME_N", str(CASES))
    try:
        versions = (base_version(arguments.base), current_version())
    except subprocess.CalledProcessError as e:
        print(f"cannot prepare {arguments.base}: {' '.join(map(str, e.cmd))} failed")
        return 2
    with tempfile.TemporaryDirectory(prefix="partage-same-") as folder:
        outs = (Path(folder) / "base", Path(folder) / "current")
        options = ["--capture", str(_capture()), "--cases", cases, "--parts", arguments.parts]
        runs = [
            _start(version, "--out", str(out), *options)
            for version, out in zip(versions, outs, strict=True)
        ]
        exit_codes = [run.wait() for run in runs]
        if any(exit_codes):
            print("a run failed: its error is printed above")
            return 2
        differences = list(_differences(versions, *outs))
        compared = sum(1 for _ in outs[1].rglob("*.txt"))
    for text in differences:
        print(f"\n{text}")
    if differences:
        print(f"\n{len(differences)} of {compared} results differ from {versions[0].name}")
        return 1
    print(f"{compared} results are equal to {versions[0].name}; {cases} problems a subject")
    return 0


def _capture() -> Path:
    """Return the recorded capture beside the project, or the sample that ships with Partage."""
    recorded = ROOT.parent / "shared" / "capture"
    return recorded if recorded.exists() else ROOT / "src" / "partage" / "sample"


def _start(version: Version, *words: str) -> subprocess.Popen[bytes]:
    # Not in the project's folder, where `python -m` would find the checkout's files.
    command = [str(version.python), "-m", "same.probe", "--root", str(ROOT), *words]
    return subprocess.Popen(command, env=version.environment(), cwd=tempfile.gettempdir())


def _differences(versions: tuple[Version, Version], base: Path, current: Path) -> Iterator[str]:
    """Yield a readable text for each result that differs."""
    names = {
        str(path.relative_to(out))
        for out in (base, current)
        for path in out.rglob("*.txt")
        if "work" not in path.relative_to(out).parts
    }
    for name in sorted(names):
        old, new = (_text(out / name) for out in (base, current))
        if old == new:
            continue
        if old is None or new is None:
            yield f"{name}: only in {versions[0 if new is None else 1].name}"
        elif name.startswith("problems"):
            yield _case_difference(versions, Path(name).stem.replace(" ", "/", 1), old, new)
        else:
            yield f"{name}:\n{_line_difference(old, new)}"


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    text = rename_text(path.read_text(encoding="utf-8"))
    return rename_words(text) if path.name == "signatures.txt" else text


def _case_difference(versions: tuple[Version, Version], subject: str, old: str, new: str) -> str:
    """Return the first case whose outcomes differ: its input and both outcomes."""
    pairs = list(zip(old.splitlines(), new.splitlines(), strict=True))
    cases = [case for case, (before, after) in enumerate(pairs) if before != after]
    shown = [
        subprocess.run(
            [
                str(version.python), "-m", "same.probe",
                "--root", str(ROOT), "--show", subject, str(cases[0]),
            ],
            env=version.environment(),
            cwd=tempfile.gettempdir(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.splitlines()
        for version in versions
    ]  # fmt: skip
    lines = [f"{subject}: {len(cases)} of {len(pairs)} cases differ; case {cases[0]}:"]
    lines.append(f"  input {shown[1][0]}")
    lines += [f"  - {shown[0][1]}", f"  + {shown[1][1]}"]
    return "\n".join(lines)


def _line_difference(old: str, new: str) -> str:
    """Return the first lines that only one side has, without regard to their order."""
    before, after = Counter(old.splitlines()), Counter(new.splitlines())
    lines = []
    for sign, only in (("-", before - after), ("+", after - before)):
        lines += [f"  {sign} {line[:WIDTH]}" for line in list(only)[:LINES_SHOWN]]
        if len(only) > LINES_SHOWN:
            lines.append(f"  {sign} ... {len(only) - LINES_SHOWN} more lines")
    return "\n".join(lines) or "  the same lines in another order"


if __name__ == "__main__":
    sys.exit(main())
