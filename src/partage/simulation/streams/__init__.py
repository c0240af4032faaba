"""A Streams application over time: what standbys, warm-ups and settings buy.

Pure: no files, no clock, no chance. `application` is what one gives, `reading` reads it from
JSON; `playing` plays it on the clock of `partage.simulation.loop`: `stage` has what all protocols
share, `gathering` who joins a classic group when, `led` what its leader decides, `coordinated` a
streams group (KIP-1071). `world` holds the clients and their copies of state, which come closer by
the rules of `restoring`; `told` are lags that a real leader saw, in their place. `played` is what
comes out, `measures` puts figures on it, and `sweeping` plays many assignors and settings.
`decision` is one rebalance alone, from given lags.
"""

from __future__ import annotations

from partage.simulation.streams.application import (
    ApplicationInstance,
    Runtime,
    ScenarioEvent,
    SimulatedApplication,
    TaskState,
)
from partage.simulation.streams.decision import GivenState, StreamsDecision, decide, read_state
from partage.simulation.streams.measures import StreamsMeasures, measured
from partage.simulation.streams.played import Played, Rebalanced, Span
from partage.simulation.streams.playing import play
from partage.simulation.streams.reading import read
from partage.simulation.streams.sweeping import Cell, cells, played_cell
from partage.simulation.streams.told import Told

__all__ = [
    "ApplicationInstance",
    "Cell",
    "GivenState",
    "Played",
    "Rebalanced",
    "Runtime",
    "ScenarioEvent",
    "SimulatedApplication",
    "Span",
    "StreamsDecision",
    "StreamsMeasures",
    "TaskState",
    "Told",
    "cells",
    "decide",
    "measured",
    "play",
    "played_cell",
    "read",
    "read_state",
]
