"""A broker of Kafka 0.10.2, as far as a client gets with it: what it can, and who there is.

Its releases no longer run here; what it answers is short. Layouts: ApiVersionsResponse version 0 and
MetadataResponse version 2, as the broker's release had them at most.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA, API_VERSIONS = 3, 18
UNSUPPORTED_VERSION = 35
#: Request -> its highest version in 0.10.2; all begin at 0.
HIGHEST = {
    0: 2, 1: 3, 2: 1, METADATA: 2, 8: 2, 9: 2, 10: 0, 11: 1, 12: 0, 13: 0, 14: 0, 15: 0, 16: 0,
    17: 0, API_VERSIONS: 0, 19: 1, 20: 1,
}  # fmt: skip


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while len(head := self.rfile.read(4)) == 4:
            request = self.rfile.read(struct.unpack(">i", head)[0])
            key, version, correlation = struct.unpack_from(">hhi", request)
            if key == API_VERSIONS:
                body = _versions(0 if version == 0 else UNSUPPORTED_VERSION)
            elif key == METADATA and version <= HIGHEST[METADATA]:
                body = _metadata(self.server.server_address[1])
            else:
                return  # as it does with what it does not know: it hangs up
            self.wfile.write(struct.pack(">ii", 4 + len(body), correlation) + body)


def _versions(error: int) -> bytes:
    rows = b"".join(struct.pack(">hhh", key, 0, highest) for key, highest in HIGHEST.items())
    return struct.pack(">hi", error, len(HIGHEST)) + rows


def _metadata(port: int) -> bytes:
    host = b"127.0.0.1"
    broker = struct.pack(">ih", 1, len(host)) + host + struct.pack(">ih", port, -1)
    name = b"__consumer_offsets"
    partition = struct.pack(">hii", 0, 0, 1) + struct.pack(">iiii", 1, 1, 1, 1)
    topic = struct.pack(">hh", 0, len(name)) + name + struct.pack(">?i", True, 1) + partition
    return struct.pack(">i", 1) + broker + struct.pack(">hii", -1, 1, 1) + topic


@contextmanager
def old_broker() -> Iterator[str]:
    """Its address while the block lasts."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
