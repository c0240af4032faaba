"""`partition_for` and `to_polars` with polars, arro3 and nanoarrow as released."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig

import pytest
from tests.support.processes import ROOT, client_python
from tests.support.published import published

import partage as pg

pytestmark = pytest.mark.soak

KEYS = ["foobar", None, "21", "user-1"]
#: Type of the result by library of the keys.
TYPES = {
    "polars": {"polars.Series"}, "nanoarrow": {"nanoarrow.Array"},
    "arro3": {"arro3.Array", "arro3.ChunkedArray"},
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    """Run tests/peers/array_libraries.py in the environment that has the libraries."""
    folder = published(tmp_path_factory.mktemp("run"))
    libraries = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    script = ROOT / "tests" / "peers" / "array_libraries.py"
    done = subprocess.run(
        [client_python("polars-1"), script, folder],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": libraries},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_library_gets_its_own_columns(results) -> None:
    """Partitions equal those of a list, null keys are null, and a Series keeps its name."""
    expected = [
        None if key is None else partition
        for key, partition in zip(KEYS, pg.partition_for(KEYS, partitions=10).tolist(), strict=True)
    ]
    assert len(results["keys"]) == 10
    for name, found in results["keys"].items():
        library = name.partition(" ")[0]
        assert found["values"] == expected, name
        assert found["type"] in TYPES[library], name
        assert found["name"] == ("key" if library == "polars" else None), name


def test_tables_become_frames_of_polars(results) -> None:
    """Times have milliseconds and UTC, tuples are lists, and no column is of Python objects."""
    groups = results["frames"]["groups"]
    assert groups["clients"] == "List(String)"
    assert (groups["rebalances"], groups["unread"]) == ("Int64", "Float64")
    assert not [
        kind for of in results["frames"].values() for kind in of.values() if kind == "Object"
    ]
    assert results["first_time"] == "1970-01-01T00:00:01+00:00"
