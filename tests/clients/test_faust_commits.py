"""What faust-streaming's own consumer commits after dropped records, alone and with our guard."""

from __future__ import annotations

import json
import subprocess

from tests.clients.faust_workers import FAUST
from tests.support.processes import ROOT, client_python


def _run_workers(kind: str) -> dict[str, dict]:
    script = ROOT / "tests" / "peers" / "faust_commits.py"
    done = subprocess.run(
        [client_python(FAUST), script, kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def test_the_guard_keeps_fausts_commits_behind_dropped_records() -> None:
    """300 records dropped before any commit, and one record missing behind a commit: Faust's consumer
    commits past them, with the guard they are read again or waited for. Without drops both agree.
    """
    stock, guarded = _run_workers("stock"), _run_workers("guarded")
    assert stock["nothing committed"] == {"read": [300, 301, 302], "early": 301, "late": 303}
    assert guarded["nothing committed"] == {"read": [0, 1, 2], "early": 1, "late": 3}
    assert stock["one missing"]["early"] == 86
    assert guarded["one missing"] == {"read": [84, 85, 86], "early": 84, "late": 87}
    assert stock["as it should be"] == guarded["as it should be"]
