"""The HTTP server of the metrics: ``/metrics`` and ``/healthz``.

Requests are answered in threads of their own from values that are ready, so no client can delay
the capture. A slow client is disconnected, and there is a limit of clients at a time.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError, MissingExtraError
from partage.watch.prometheus_metrics import ExportedFamily

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Exporter", "encode_metrics", "parse_address"]

#: Clients that are answered at a time, and seconds after which one of them is disconnected.
_MOST_CLIENTS, _CLIENT_SECONDS = 8, 10.0


def parse_address(text: str) -> tuple[str, int]:
    """Parse the address ``HOST:PORT`` to listen on, and return host and port.

    An IPv6 address must be in brackets. The address is the value of the option ``--metrics``.

    Raises:
        InvalidConfigError: the text does not have the form ``HOST:PORT``.

    >>> parse_address("127.0.0.1:9464"), parse_address("[::1]:0")
    (('127.0.0.1', 9464), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidConfigError("--metrics", "must be HOST:PORT, as 127.0.0.1:9464", text)
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether a server on this host address accepts connections only from the same machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def encode_metrics(families: Iterable[ExportedFamily], accept: str) -> tuple[bytes, str]:
    """Encode Prometheus metrics as the body of a ``/metrics`` response.

    The format is OpenMetrics if the client accepts that, else Prometheus text.

    Args:
        families: metrics with their samples.
        accept: the ``Accept`` header of the HTTP request.

    Returns:
        body of the response, and its content type.

    Raises:
        MissingExtraError: prometheus_client is not installed.
    """
    try:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        from prometheus_client.exposition import choose_encoder
    except ImportError:
        raise MissingExtraError("prometheus_client", extra="watch") from None

    class _Collector:
        """Prometheus collector that returns the metrics given to `encode_metrics`.

        The library prometheus_client calls it to encode them.
        """

        def collect(self) -> Iterator[Any]:
            """Yield each metric as a Prometheus metric family (name, help text and samples)."""
            for metric, samples in families:
                kind = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
                family = kind(metric.name, metric.help, labels=metric.labels)
                for labels, value in samples:
                    family.add_metric(labels, value)
                yield family

    encode, content_type = choose_encoder(accept)
    body: bytes = encode(_Collector())
    return body, content_type


class Exporter:
    """HTTP server that serves Prometheus metrics at ``/metrics`` and a health check at
    ``/healthz``.

    It runs in a thread of its own while its ``with`` block lasts.

    Args:
        address: host and port to listen on; port 0 takes a free one.
        families: function that returns the metrics with their samples.
        health: function that returns "" if the capture is healthy, else the reason why not.

    Attributes:
        port: the port on which the server listens.

    Raises:
        InvalidConfigError: the address cannot be used.
        MissingExtraError: prometheus_client is not installed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        families: Callable[[], Iterable[ExportedFamily]],
        health: Callable[[], str],
    ) -> None:
        encode_metrics((), "")  # a missing library is reported before anything is opened
        host, port = address
        handler = type("Handler", (_Handler,), {"families": staticmethod(families),
                                                "health": staticmethod(health)})  # fmt: skip
        server = type("Server", (_Server,), {
            "address_family": socket.AF_INET6 if ":" in host else socket.AF_INET,
        })  # fmt: skip
        try:
            self._server: ThreadingHTTPServer = server((host, port), handler)
        except OSError as e:
            what = f"cannot be used ({e.strerror or e}); give another address or port"
            raise InvalidConfigError("--metrics", what, f"{host}:{port}") from None
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._places = BoundedSemaphore(_MOST_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of an HTTP request, for example a client that disconnects early.

        The base class would print a traceback for each of them.
        """


# The base class would print a traceback.
class _Handler(BaseHTTPRequestHandler):
    families: Callable[[], Iterable[ExportedFamily]]
    health: Callable[[], str]
    timeout = _CLIENT_SECONDS
    server_version = "partage"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            body, kind = encode_metrics(self.families(), self.headers.get("Accept", ""))
            self._answer(200, body, kind)
        elif path == "/healthz":
            trouble = self.health()
            body = (trouble or "ok").encode() + b"\n"
            self._answer(503 if trouble else 200, body, "text/plain; charset=utf-8")
        else:
            self._answer(404, b"/metrics or /healthz\n", "text/plain; charset=utf-8")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Do nothing, so that HTTP requests are not logged.

        The base class would write a line to standard error for each request.
        """
