"""`partage keys` and `partage audit` where a broker asks who is there: TLS and SCRAM, by Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.live.test_guarded import READER, _account, _allow, _client, certificates, guarded
from tests.live.test_keys_kafka import connector

pytest.importorskip("kafka")

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.jvm]

__all__ = ["_account", "certificates", "connector", "guarded"]


def _asked(connector: str, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "partage", *words], capture_output=True, text=True, timeout=400,
        check=False, env={**os.environ, "PYSPARK_SUBMIT_ARGS": connector, "PARTAGE_DEBUG": ""},
    )  # fmt: skip
    assert READER not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_topic_behind_tls_and_scram(guarded, certificates, connector: str, tmp_path) -> None:
    """Both commands take a client's properties and read the topic; without, or with a wrong password,
    or for a topic that the account may not see, one line says so before Spark starts.
    """
    guarded.create_topic("locked", 6)
    keys = [f"order-{i}" for i in range(300)]
    guarded.produce("locked", [(None, key, "x") for key in keys])
    _allow(guarded, "--operation", "Read", "--operation", "Describe", "--topic", "locked")
    config = _client(tmp_path, certificates)
    where = f"kafka://{guarded.secure}/locked"
    done = _asked(connector, "keys", where, "-p", "6", "--json", "--command-config", config)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["records"], found["keys"]) == (300, 300)
    done = _asked(connector, "audit", where, "--json", "--command-config", config)
    assert done.returncode == 0, done.stderr
    (topic,) = json.loads(done.stdout)["topics"]
    assert (topic["counts"], topic["counts_known"], topic["records"]) == ([6], True, 300)
    assert topic["writers"][0]["clients"][0] == "Java"
    (tmp_path / "wrong").mkdir()
    wrong = _client(tmp_path / "wrong", certificates, password="no-secret")  # noqa: S106 - wrong on purpose
    for command in ("keys", "audit"):
        for words, message in (
            ((where, "--command-config", wrong), "sasl.jaas.config"),
            ((where.replace("locked", "orders"), "--command-config", config), "DESCRIBE"),
        ):
            done = _asked(connector, command, *words)
            assert done.returncode == 1
            assert message in done.stderr, done.stderr
