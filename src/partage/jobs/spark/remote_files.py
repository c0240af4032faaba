"""Files at an address (``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``), through Hadoop.

The driver opens them with the file systems that the Spark session has, in its own JVM: connectors
and credentials are those of the session (``spark.hadoop.*``). Workers do not use this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partage.capture.secrets import hide_secrets, secrets_in
from partage.errors import InvalidConfigError
from partage.jobs.spark.failures import java_message
from partage.jobs.spark.tables import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RemoteFiles", "expect_no_password", "explain_storage_error", "storage_errors"]

#: Object stores: an object becomes visible when its upload has ended, as a whole. They have no
#: rename, or one that copies.
_OBJECT_STORES = {"s3a", "s3", "gs", "oss", "cosn", "obs"}
#: Files that are copied at a time.
_COPIES = 8
#: Connectors by scheme; ``{}`` is the version of Hadoop in the session.
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "gs": "org.apache.hadoop:hadoop-gcp:{}",
}
#: Frequent errors, by a word in the message of Java, and what to tell the user instead of it.
_CAUSES = (
    (r"NoSuchBucket|UnknownStoreException|bucket does not exist|container does not exist",
     "there is no such bucket; create it, or check the address"),
    (r"No AWS Credentials|NoAuthWithAWS",
     "no credentials were found; give --conf spark.hadoop.fs.s3a.access.key=... and "
     "spark.hadoop.fs.s3a.secret.key=..., or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
     "environment"),
    (r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 403|Permission denied",
     "access is denied; check the credentials: the account must list, read, write and delete"),
)  # fmt: skip
#: An address with a password (``s3a://KEY:SECRET@bucket``); a port has digits only.
_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*:/+[^/@:]*:(?!\d+(?:/|$))[^@]*@")


class RemoteFiles:
    """Remote file system, such as S3 or HDFS, accessed through Hadoop's classes in the driver's
    JVM.

    All methods take full addresses. They raise Py4J's errors, which `storage_errors` converts.

    Args:
        spark: the session whose Hadoop configuration opens the address.
        address: a file or folder in the file system.
    """

    def __init__(self, spark: SparkSession, address: str) -> None:
        context: Any = spark.sparkContext
        self._hadoop = context._jvm.org.apache.hadoop.fs  # noqa: SLF001 - Hadoop has no other door in PySpark
        self._gateway = context._gateway  # noqa: SLF001 - as above
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        self._files = self._path(address).getFileSystem(self._configuration)
        self._is_object_store = address.partition(":")[0].lower() in _OBJECT_STORES

    def _path(self, address: str) -> Any:
        return self._hadoop.Path(address)

    def exists(self, address: str) -> bool:
        """Return whether a file or folder exists at an address, such as ``s3a://bucket/run``."""
        return bool(self._files.exists(self._path(address)))

    def is_folder(self, address: str) -> bool:
        """Return whether an address is a folder.

        If nothing is at the address, it raises Py4J's error.
        """
        return bool(self._files.getFileStatus(self._path(address)).isDirectory())

    def size(self, address: str) -> int:
        """Return the size in bytes of a remote file, or of all files in a remote folder."""
        return int(self._files.getContentSummary(self._path(address)).getLength())

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files and folders in a folder.

        The result is empty if the folder is missing.
        """
        if not self.exists(folder):
            return []
        return sorted(one.getPath().getName() for one in self._files.listStatus(self._path(folder)))

    def download(self, address: str, local: Path) -> None:
        """Copy a remote file or folder to a local path; the path's folder is created if
        necessary.
        """
        local.parent.mkdir(parents=True, exist_ok=True)
        # The last flag leaves out the checksum files that Hadoop writes locally.
        self._files.copyToLocalFile(False, self._path(address), self._path(local.as_uri()), True)

    def upload(self, local: Path, address: str) -> None:
        """Copy a local file to an address in remote storage; an existing file is replaced."""
        self._files.setWriteChecksum(False)  # for file://, whose files would get .crc files
        self._files.copyFromLocalFile(False, True, self._path(local.as_uri()), self._path(address))

    def publish(self, local: Path, address: str) -> None:
        """Copy a small local file to an address, and replace an existing file atomically.

        Readers see the old content or the new one. In an object store, one request writes the
        object. Elsewhere, for example in HDFS, a temporary file is written first and then renamed.
        """
        if self._is_object_store:
            self.upload(local, address)
            return
        folder, _, name = address.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid4().hex[:8]}"
        self.upload(local, temporary)
        kind = self._hadoop.Options.Rename
        options = self._gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE
        context = self._hadoop.FileContext.getFileContext(self._files.getUri(), self._configuration)
        context.rename(self._path(temporary), self._path(address), options)

    def remove(self, address: str) -> None:
        """Remove a remote file, or a remote folder with its content; do nothing if it is
        missing.
        """
        self._files.delete(self._path(address), True)

    def remove_empty_folder(self, address: str) -> None:
        """Remove an empty folder.

        If the folder has files, it raises Py4J's error.
        """
        self._files.delete(self._path(address), False)

    def download_all(
        self, base: str, names: Iterable[str], folder: Path, done: Callable[[int, int], None]
    ) -> None:
        """Copy files from a remote folder to a local folder, several at a time.

        Args:
            base: address of the folder.
            names: paths of the files, relative to it.
            folder: the local folder.
            done: called with the number of copied files and the number of all.

        Raises:
            InvalidConfigError: a path leads out of the folder.
        """
        copies = [(f"{base}/{name}", folder / _expect_inside(name)) for name in names]
        _copy_all(self.download, copies, done)

    def upload_all(
        self, folder: Path, names: Iterable[str], base: str, done: Callable[[int, int], None]
    ) -> None:
        """Copy files from a local folder to a remote folder, several at a time.

        Args:
            folder: the local folder.
            names: paths of the files, relative to it.
            base: address of the remote folder.
            done: called with the number of copied files and the number of all files.
        """
        _copy_all(self.upload, [(folder / name, f"{base}/{name}") for name in names], done)


def _copy_all(
    copy: Callable[[Any, Any], None],
    copies: list[tuple[Any, Any]],
    done: Callable[[int, int], None],
) -> None:
    with ThreadPoolExecutor(_COPIES) as pool:
        running = [pool.submit(copy, *one) for one in copies]
        try:
            for number, one in enumerate(running, 1):
                one.result()
                done(number, len(running))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _expect_inside(name: str) -> str:
    """Return a relative path of a manifest unchanged if it stays within the manifest's folder.

    Raises:
        InvalidConfigError: the path is absolute or contains ``..``.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidConfigError("DIR", "has a manifest with a path that leads out of it", name)
    return name


def expect_no_password(address: str, setting: str) -> None:
    """Raise an error if an address contains a password, because addresses appear in logs.

    Hadoop's file systems take credentials from settings instead.

    Raises:
        InvalidConfigError: it has one, as in ``s3a://KEY:SECRET@bucket``.

    >>> expect_no_password("hdfs://name-node:8020/a@b", "--out")
    >>> expect_no_password("s3a://KEY:SECRET@bucket", "--out")
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: --out: must have no password; ...
    """
    if _PASSWORD.match(address):
        what = "must have no password; give credentials as Spark settings (--conf spark.hadoop...)"
        shown = re.sub(r":[^/].*@", ":[hidden]@", address)
        raise InvalidConfigError(setting, what, shown)


def explain_storage_error(spark: SparkSession, address: str, error: Exception) -> str:
    """Return the cause of a Hadoop error as one line without secrets, with a hint where possible.

    Args:
        spark: the session.
        address: the address that could not be used.
        error: the error of Py4J or PySpark.
    """
    secrets = secrets_in(dict(spark.sparkContext.getConf().getAll()))
    reason = hide_secrets(java_message(error) or first_line(error), secrets)
    scheme = address.partition(":")[0].lower()
    if re.search(r"No FileSystem for scheme|ClassNotFoundException", reason):
        context: Any = spark.sparkContext
        hadoop = context._jvm.org.apache.hadoop.util.VersionInfo.getVersion()  # noqa: SLF001 - as above
        connector = _CONNECTORS.get(scheme, "").format(hadoop)
        jars = f"spark.jars.packages={connector}" if connector else "spark.jars=..."
        return f"Spark has no connector for {scheme}://; give it with --conf {jars}"
    known = next((text for pattern, text in _CAUSES if re.search(pattern, reason)), None)
    return known or f"{reason[:300]}; check the address, and give credentials with --conf"


@contextmanager
def storage_errors(spark: SparkSession, address: str, setting: str) -> Iterator[None]:
    """Convert errors of Hadoop's file systems in a ``with`` block to Partage errors.

    Args:
        spark: the session.
        address: the output folder.
        setting: option or argument that named it.

    Raises:
        InvalidConfigError: the address cannot be read or written.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JNetworkError:
        raise  # the JVM was killed
    except (PySparkException, Py4JError) as e:
        what = f"cannot be used ({explain_storage_error(spark, address, e)})"
        raise InvalidConfigError(setting, what, address) from None
