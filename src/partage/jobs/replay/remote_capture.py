"""A capture at an address: its small files are copied here through Hadoop's file systems.

The records stay where they are: Spark reads them. The driver needs the metadata, the transaction
markers, the settings of the broker and the manifest as files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from partage.capture.manifest import MANIFEST, Manifest
from partage.capture.secrets import hide, secrets_in
from partage.errors import InvalidCaptureError
from partage.jobs.replay.capture import Capture, read_metadata
from partage.jobs.spark.failures import java_message
from partage.jobs.spark.tables import SparkTable, first_line, is_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["with_remote_files"]

_RECORDS, _BATCHES = "consumer_offsets.parquet", "batches.parquet"
_SMALL = (MANIFEST, "cluster.jsonl", "cluster-config.json")
#: Tables of a capture that are no records of the group log.
_OTHERS = {_BATCHES, "topics.parquet"}


@contextmanager
def with_remote_files(spark: SparkSession, capture: Capture) -> Iterator[Capture]:
    """Yield the capture with the files beside its records, if it is at an address.

    Copies of them exist as long as the block lasts.

    Args:
        spark: a session; its Hadoop configuration opens the address.
        capture: as `open_capture` returned it; one that is not at an address is yielded unchanged.

    Raises:
        InvalidCaptureError: nothing is at the address, it cannot be read, or a file of it is
            damaged.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    table = capture.table
    if table is None or type(table) is not SparkTable or not is_address(table.name):
        yield capture
        return
    with TemporaryDirectory(prefix="partage-beside-") as made:
        local = Path(made) / "capture"  # files are looked for one folder above too
        local.mkdir()
        try:
            remote = _Folder(spark, table.name)
            records = remote.copy_beside(local)
        except (PySparkException, Py4JError) as e:
            secrets = secrets_in(dict(spark.sparkContext.getConf().getAll()))
            why = hide(java_message(e) or first_line(e), secrets)[:300]
            raise InvalidCaptureError(
                f"{table.name}: cannot be read ({why}); check the address, and give its connector "
                "and credentials with --conf"
            ) from None
        try:
            states, batches, notes = read_metadata(local)
            found = replace(
                capture, table=records, states=states, batches=batches, notes=notes, beside=local
            )
        except InvalidCaptureError as e:
            raise InvalidCaptureError(str(e).replace(str(local), remote.where)) from None
        yield found


class _Folder:
    """A folder or a file at an address.

    Args:
        spark: a session.
        address: as the user gave it.

    Attributes:
        where: the folder that the files beside the records are in.

    Raises:
        InvalidCaptureError: nothing is there.
    """

    def __init__(self, spark: SparkSession, address: str) -> None:
        context: Any = spark.sparkContext
        self._path = context._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 - Hadoop has no other door in PySpark
        configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        self._address = address.rstrip("/")
        self._files = self._path(self._address).getFileSystem(configuration)
        if not self._exists(self._address):
            raise InvalidCaptureError(f"{address}: no such folder; give the folder of a capture")
        self._is_folder = self._files.getFileStatus(self._path(self._address)).isDirectory()
        above = self._address.rpartition("/")[0]
        self.where = self._address if self._is_folder else above
        self._places = [self._address, above] if self._is_folder else [above]

    def _exists(self, address: str) -> bool:
        return bool(self._files.exists(self._path(address)))

    def copy_beside(self, local: Path) -> SparkTable:
        """Copy the small files into a local folder, and return the table of the records.

        As in a local capture each file may be beside the records or one folder above.
        """
        for name in _SMALL:
            self._copy(name, local / name)
        manifest = Manifest.of(local)
        if manifest is None:
            self._copy(_BATCHES, local / _BATCHES)
        else:
            (local / _BATCHES).mkdir()
            for one in manifest.parts:
                self._copy(f"{_BATCHES}/{one.name}", local / _BATCHES / one.name)
        return self._records(manifest)

    def _copy(self, name: str, to: Path) -> None:
        for place in self._places:
            if self._exists(f"{place}/{name}"):
                # The last flag leaves out the checksum files that Hadoop writes locally.
                source, target = self._path(f"{place}/{name}"), self._path(to.as_uri())
                self._files.copyToLocalFile(False, source, target, True)
                return

    def _records(self, manifest: Manifest | None) -> SparkTable:
        """Return the table of the records: of the parts that the manifest counts, where it does."""
        records = f"{self._address}/{_RECORDS}"
        if self._is_folder and self._exists(records):
            if manifest is None:
                return SparkTable(self._address, "parquet", (records,))
            parts = tuple(f"{records}/{one.name}" for one in manifest.parts)
            if not parts:
                what = "the capture is empty (0 records); record it again"
                raise InvalidCaptureError(f"{self._address}: {what}")
            return SparkTable(self._address, "parquet", parts)
        if not self._is_folder:
            return SparkTable(self._address, "parquet")
        found = [
            one.getPath().getName() for one in self._files.listStatus(self._path(self._address))
        ]
        if not _OTHERS & set(found):
            return SparkTable(self._address, "parquet")
        mine = sorted(
            one for one in found
            if one not in _OTHERS and one[0] not in "._" and (".parquet" in one or "=" in one)
        )  # fmt: skip
        return SparkTable(self._address, "parquet", tuple(f"{self._address}/{one}" for one in mine))
