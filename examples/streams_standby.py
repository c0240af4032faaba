"""What does a standby buy? A Streams application loses a client, with and without one.

Run: python examples/streams_standby.py
"""

from __future__ import annotations

from partage.simulation.streams import SweepCell, read_application, simulate_cell

APPLICATION = {
    "name": "counts",
    "seconds": 3600,
    "subtopologies": [{"sources": {"lines": 4}, "stores": {"words": {"records": 6_000_000}}}],
    "clients": {
        "a": {"restoreBytesPerSecond": 10_000_000},
        "b": {"restoreBytesPerSecond": 10_000_000},
    },
    "events": [{"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}],
}


def main() -> None:
    """The same crash twice."""
    application = read_application(APPLICATION)
    for standbys in ("0", "1"):
        cell = SweepCell("high-availability", (("num.standby.replicas", standbys),))
        _, measures = simulate_cell(application, cell)
        print(
            f"{standbys} standbys: the worst task is away for {measures.worst_unavailable:g} s, "
            f"{measures.standby_bytes / 1e9:.1f} GB kept beside the actives"
        )


if __name__ == "__main__":
    main()
