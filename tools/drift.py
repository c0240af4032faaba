"""Print how another Kafka release differs from the one that Partage reproduces.

    python tools/drift.py VERSION [--layouts-only] [--picture FILE]

Four comparisons: record types of the group coordinator, message layouts field by field, class files
of the algorithms that Partage imitates, and the parity tests with the other release's classes. Jars
come from Maven's ordinary client; jars that the release does not have stay those of 4.3.1.
Exit code 0 if nothing differs, 1 if something does, 3 if no jar is available.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(ROOT / "src"))

from tests.support.kafka_definitions import definitions_of, layout  # noqa: E402 - after the path

from partage.forecasts.pictures import drift_picture  # noqa: E402 - after the path

#: The release that Partage reproduces, and the artifacts that it is compared with.
OURS = "4.3.1"
ARTIFACTS = (
    "kafka-clients", "kafka-group-coordinator", "kafka-group-coordinator-api",
    "kafka-coordinator-common", "kafka-server-common", "kafka-metadata", "kafka-streams",
)  # fmt: skip
#: Class files whose algorithms Partage imitates.
CLASSES = re.compile(
    r"org/apache/kafka/("
    r"clients/consumer/(internals/)?\w*(Assignor|ConsumerProtocol)[\w$]*"
    r"|clients/producer/internals/BuiltInPartitioner[\w$]*"
    r"|coordinator/group/(assignor|streams/assignor)/[\w$]+"
    r"|coordinator/group/(modern|streams)/(Target|Current)AssignmentBuilder[\w$]*"
    r"|coordinator/group/streams/(AssignmentRefiner|MemberTaskOffsets)[\w$]*"
    r"|coordinator/group/modern/consumer/CurrentAssignmentBuilder[\w$]*"
    r"|metadata/placement/[\w$]+"
    r"|streams/processor/internals/(assignment/[\w$]+|StreamsPartitionAssignor[\w$]*)"
    r"|streams/processor/assignment/assignors/[\w$]+"
    r")\.class"
)
#: Parity tests of Kafka's own classes of this release.
PARITY = (
    "tests/parity/test_assignors.py", "tests/parity/test_server_assignors.py",
    "tests/parity/test_sticky.py", "tests/parity/test_wire_parity.py",
    "tests/parity/test_placement_parity.py", "tests/parity/test_streams_parity.py",
    "tests/parity/test_streams_leader.py", "tests/parity/test_streams_info_parity.py",
    "tests/parity/test_negotiation.py",
)  # fmt: skip
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def fetch(version: str) -> tuple[dict[str, Path], dict[str, str]]:
    """Fetch the release's jars with Maven; return them by artifact, and why others are missing.

    The reason is Maven's first error line.
    """
    maven = shutil.which("mvn") or str(ROOT / "jvm" / "mvnw")
    folder = ROOT / "jvm" / "target" / "drift" / version
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for artifact in ARTIFACTS:
        jar = folder / f"{artifact}-{version}.jar"
        if not jar.exists():
            print(f"fetching {artifact} {version} with Maven", file=sys.stderr, flush=True)
            wanted = f"-Dartifact=org.apache.kafka:{artifact}:{version}"
            done = subprocess.run(
                [maven, "-q", "-B", _COPY, wanted, f"-DoutputDirectory={folder}"],
                cwd=folder, check=False, capture_output=True, text=True,
            )  # fmt: skip
            missing[artifact] = _first_error(done.stdout + done.stderr)
        if jar.exists():
            found[artifact] = jar
            missing.pop(artifact, None)
    return found, missing


def _first_error(output: str) -> str:
    r"""Return the first error line of Maven's output, in at most 300 characters.

    >>> _first_error("[INFO] x\n[ERROR] Failed: could not transfer artifact\n[ERROR] y")
    'Failed: could not transfer artifact'
    """
    lines = [one for one in output.splitlines() if one.strip()]
    errors = [one.partition("[ERROR]")[2].strip() for one in lines if "[ERROR]" in one]
    return next(filter(None, [*errors, *lines[-1:]]), "no output")[:300]


def layout_changes(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a line for each message whose layout differs, with the fields that do.

    >>> old = {"M": {"name": "M", "validVersions": "0", "fields": [{"name": "a", "type": "int8"}]}}
    >>> new = {"M": {"name": "M", "validVersions": "0-1", "fields": []}}
    >>> list(layout_changes(old, new))
    ['M: validVersions 0 -> 0-1; removed a']
    """
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{name}: removed"
        elif name not in before:
            yield f"{name}: new ({after[name].get('type')})"
        elif layout(before[name]) != layout(after[name]):
            yield f"{name}: {'; '.join(_field_changes(before[name], after[name])) or 'other order'}"


def _field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in ("validVersions", "flexibleVersions", "apiKey"):
        if before.get(key) != after.get(key):
            yield f"{key} {before.get(key)} -> {after.get(key)}"
    old, new = dict(_fields(before)), dict(_fields(after))
    yield from (f"removed {name}" for name in old if name not in new)
    yield from (f"added {name}" for name in new if name not in old)
    yield from (f"changed {name}" for name in old if name in new and old[name] != new[name])


def _fields(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name of each field with its layout, without that of its own fields."""
    for part in (*document.get("fields", ()), *document.get("commonStructs", ())):
        name = f"{path}{part['name']}"
        yield name, layout({key: value for key, value in part.items() if key != "fields"})
        yield from _fields(part, f"{name}.")


def class_changes(before: list[Path], after: list[Path]) -> Iterator[str]:
    """Yield a line for each class file that was added, removed or compiled to other bytes."""
    old, new = _checksums(before), _checksums(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            what = "changed" if name in old and name in new else "new" if name in new else "removed"
            yield f"{name.removesuffix('.class').replace('/', '.')}: {what}"


def _checksums(jars: list[Path]) -> dict[str, int]:
    found: dict[str, int] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as packed:
            found |= {
                one.filename: one.CRC
                for one in packed.infolist()
                if CLASSES.fullmatch(one.filename)
            }
    return found


def parity(folder: Path, arguments: list[str]) -> tuple[int, list[str]]:
    """Run the parity tests with the release's jars before ours; return exit code and lines."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PARITY, "-q", "-p", "no:randomly", "--tb=line", "-rfE",
         *arguments],
        cwd=ROOT, env={**os.environ, "PARTAGE_KAFKA_JARS": str(folder)}, check=False, text=True,
        capture_output=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = next((one for one in reversed(done.stdout.splitlines()) if one.strip()), "no output")
    return done.returncode, [*lines, last]


def change_kinds(lines: list[str]) -> tuple[int, int, int]:
    """Return how many lines are changed, new and removed messages or class files.

    >>> change_kinds(["A: validVersions 0 -> 0-1", "B: new (data)", "C: removed", "D: changed"])
    (2, 1, 1)
    """
    kinds = [line.partition(": ")[2] for line in lines]
    new = sum(re.fullmatch(r"new( \(.*\))?", kind) is not None for kind in kinds)
    removed = kinds.count("removed")
    return len(kinds) - new - removed, new, removed


def _section(title: str, lines: list[str]) -> None:
    print(f"\n{title}: {len(lines) or 'no'} difference{'' if len(lines) == 1 else 's'}")
    for line in lines:
        print(f"  {line}")


def main() -> int:
    """Print the differences; exit code 0 if there are none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("--layouts-only", action="store_true", help="no parity tests")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the counts as SVG")
    parser.add_argument("rest", nargs="*", help="arguments of pytest")
    given = parser.parse_args()
    found, missing = fetch(given.version)
    if not found:
        print(f"no jar of Kafka {given.version} is available", file=sys.stderr)
        print(f"Maven: {next(iter(missing.values()))}", file=sys.stderr)
        return 3
    lib = ROOT / "jvm" / "target" / "lib"
    theirs = list(found.values())
    ours = [lib / f"{one}-{OURS}.jar" for one in found]
    absent = [str(one) for one in ours if not one.exists()]
    if absent:
        print(f"run make jvm first: {absent[0]} does not exist", file=sys.stderr)
        return 3
    print(f"Kafka {given.version} against {OURS}: {', '.join(found)}")
    if missing:
        print(f"not available, compared as {OURS}: {', '.join(missing)}")
    old, new = definitions_of(ours), definitions_of(theirs)
    records = {name for of in (old, new) for name, one in of.items()
               if one.get("type", "").startswith("coordinator-")}  # fmt: skip
    layouts = list(layout_changes(old, new))
    classes = list(class_changes(ours, theirs))
    sections = {
        "Records of the group coordinator":
            [one for one in layouts if one.partition(":")[0] in records],
        "Other messages": [one for one in layouts if one.partition(":")[0] not in records],
        "Class files of imitated algorithms": classes,
    }  # fmt: skip
    for title, lines in sections.items():
        _section(title, lines)
    if given.picture is not None:
        head = f"Kafka {given.version} against {OURS}: differences"
        counts_of = {title: change_kinds(lines) for title, lines in sections.items()}
        given.picture.write_text(drift_picture(head, counts_of), encoding="utf-8")
    code, lines = (0, []) if given.layouts_only else parity(theirs[0].parent, given.rest)
    if lines:
        counts = Counter(re.sub(r".*parity/(\w+)\.py.*", r"\1", one) for one in lines[:-1])
        print(f"\nParity with the classes of {given.version}: {lines[-1]}")
        for line in lines[:-1]:
            print(f"  {line}")
        for name, count in counts.items():
            print(f"  {name}: {count} test{'' if count == 1 else 's'} failed")
    return int(bool(layouts or classes or code))


if __name__ == "__main__":
    raise SystemExit(main())
