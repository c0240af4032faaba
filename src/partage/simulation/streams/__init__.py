"""Simulation of a Kafka Streams application over time, with standbys and warm-ups.

Pure: no files, no wall clock, no randomness.

    application          what is simulated: sub-topologies, clients, a trace of events, settings
    application_parser   reads it from JSON and names each malformed field by its path
    recorded_trace       derives the trace from recorded rebalances
    sweep                entry points: `simulate_application`; `sweep_cells` and `simulate_cell` for
                         many settings; `standby_gain` with and without a standby of each task
    base                 clock, and clients that start, stop and crash, whatever the protocol
    classic_group        a classic group: join phase, and the leader that assigns tasks
    streams_group        a streams group (KIP-1071): the coordinator assigns tasks
    client_state         running clients and their copies of state, which restore at a bounded rate
    result               intervals, rebalances and metrics of a finished simulation
    decision             one rebalance of a leader alone, from given lags
"""

from __future__ import annotations

from partage.simulation.streams.application import (
    RuntimeSettings,
    SimulatedApplication,
    SimulatedClient,
    TaskState,
    TraceEvent,
)
from partage.simulation.streams.application_parser import read_application
from partage.simulation.streams.client_state import ObservedState
from partage.simulation.streams.decision import (
    GivenClientStates,
    LeaderDecision,
    decide,
    read_client_states,
)
from partage.simulation.streams.result import (
    SimulationResult,
    StreamsMetrics,
    StreamsRebalance,
    TaskInterval,
    measure_streams_result,
)
from partage.simulation.streams.sweep import (
    StandbyGain,
    SweepCell,
    simulate_application,
    simulate_cell,
    standby_gain,
    sweep_cells,
)

__all__ = [
    "GivenClientStates",
    "LeaderDecision",
    "ObservedState",
    "RuntimeSettings",
    "SimulatedApplication",
    "SimulatedClient",
    "SimulationResult",
    "StandbyGain",
    "StreamsMetrics",
    "StreamsRebalance",
    "SweepCell",
    "TaskInterval",
    "TaskState",
    "TraceEvent",
    "decide",
    "measure_streams_result",
    "read_application",
    "read_client_states",
    "simulate_application",
    "simulate_cell",
    "standby_gain",
    "sweep_cells",
]
