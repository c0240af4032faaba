"""Faust workers as processes: started, killed, and asked what they said."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

from tests.support.brokers import free_ports
from tests.support.processes import ROOT, Closes, client_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAUST = "faust-streaming-0.15.3"
PATIENCE = 240.0


class Worker(Closes):
    """One worker of tests/peers/faust_worker.py; ``kind`` is ``stock`` or one of our strategies."""

    def __init__(self, app: str, bootstrap: str, kind: str, log: Path) -> None:
        self.kind = kind
        self._log = log
        self._seen, self._said = 0, []
        (port,) = free_ports(1)
        script = ROOT / "tests" / "peers" / "faust_worker.py"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [client_python(FAUST), script, app, bootstrap, str(port), kind, f"{log}-data"],
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """SIGKILL: no leave request; the group notices by its session timeout."""
        self._process.kill()
        self._process.wait()

    close = kill

    @property
    def ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process.poll() is not None

    def text(self) -> str:
        """All that it said, logs too."""
        return self._log.read_text(errors="replace")

    def said(self) -> list[dict[str, Any]]:
        """The JSON lines, in order; one that is being written is left for the next time."""
        with self._log.open("rb") as file:
            file.seek(self._seen)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._seen += len(whole)
        lines = (one[one.find(b'{"') :] for one in whole.splitlines() if b'{"' in one)
        self._said += [json.loads(one) for one in lines if one.endswith(b"}")]
        return self._said

    @property
    def assigned(self) -> dict[str, set[tuple[str, int]]]:
        """Its last assignment: actives and standbys; nothing before the first."""
        last = next((one for one in reversed(self.said()) if "assigned" in one), None)
        if last is None:
            return {"actives": set(), "standbys": set()}
        return {role: {(t, p) for t, p in pairs} for role, pairs in last["assigned"].items()}

    @property
    def recovered(self) -> bool:
        """Whether its tables are there again since the last assignment."""
        reported = [one for one in self.said() if "assigned" in one or "recovered" in one]
        return bool(reported) and "recovered" in reported[-1]

    def counts(self) -> dict[str, int]:
        """By word the last count that it reported."""
        return {one["word"]: one["count"] for one in self.said() if "word" in one}

    def read(self) -> set[tuple[int, int]]:
        """Partition and offset of each record that it counted."""
        return {(one["partition"], one["offset"]) for one in self.said() if "word" in one}

    def numbers(self, topic: str, role: str = "actives") -> set[int]:
        """Partition numbers of a topic that it has in a role."""
        return {p for t, p in self.assigned[role] if t == topic}


def wait_until(what: Callable[[], bool], workers: list[Worker]) -> None:
    """Until it holds; fails with the end of what the workers said."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if what():
            return
        time.sleep(0.3)
    ends = [f"{one.kind}: {one.text()[-2500:]}" for one in workers]
    raise AssertionError("waited in vain\n" + "\n".join(ends))
