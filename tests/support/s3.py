"""A server with the protocol of S3 on the loopback interface (moto), and Spark's jars for it."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.processes import Closes, skip

KEY, SECRET = "AKIAEXAMPLE", "hunter2-and-more"
#: The connector's versions follow Spark's Hadoop; `mvn` finds what it needs.
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>partage</groupId><artifactId>s3</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId>
<version>{}</version></dependency></dependencies></project>"""


def s3_class_path(folder: Path) -> str:
    """Fetch Hadoop's S3 connector (700 MB, most of it the SDK) for the installed Spark; return its class path."""
    import pyspark

    if shutil.which("mvn") is None:
        skip("no Maven: the connector's jars cannot be had")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    (folder / "pom.xml").write_text(_POM.format(jar.stem.rpartition("-")[2]))
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-DincludeScope=runtime"]
    subprocess.run(
        [*command, f"-Dmdep.outputFile={folder / 'path'}"], cwd=folder, check=True, timeout=1_800
    )
    return (folder / "path").read_text().strip()


class S3Server(Closes):
    """moto's S3 in a thread of this process. ``on_put`` is called with the path of each PUT."""

    def __init__(self) -> None:
        pytest.importorskip("moto")
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        server = self
        self.on_put: Callable[[str], None] = lambda _: None

        class Handler(WSGIRequestHandler):
            def handle_expect_100(self) -> bool:
                # Werkzeug answers `Expect: 100-continue`, too, and the SDK cannot read two answers.
                return True

            def do_PUT(self) -> None:
                server.on_put(self.path)
                self.run_wsgi()

            def log(self, *_: object) -> None:
                pass

        app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        import boto3

        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )  # fmt: skip
        self.client.create_bucket(Bucket="lake")

    def close(self) -> None:
        self._server.shutdown()

    def conf(self, class_path: str, *, credentials: bool = True) -> list[str]:
        """The options of `partage replay` for this server."""
        settings = {
            "endpoint": self.endpoint, "endpoint.region": "us-east-1", "path.style.access": "true",
            "attempts.maximum": "2", "retry.limit": "2",
        }  # fmt: skip
        if credentials:
            settings |= {"access.key": KEY, "secret.key": SECRET}
        found = [f"spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items()]
        found.append(f"spark.driver.extraClassPath={class_path}")
        return [word for one in found for word in ("--conf", one)]

    def upload(self, folder: Path, prefix: str) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                self.client.upload_file(str(path), "lake", f"{prefix}/{name}")

    def names(self, prefix: str) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix)
        return {one["Key"] for page in pages for one in page.get("Contents", ())}

    def download(self, prefix: str, folder: Path) -> Path:
        for name in self.names(prefix):
            path = folder / name.removeprefix(f"{prefix}/")
            if not name.endswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                self.client.download_file("lake", name, str(path))
        return folder
