"""Simulation of a group's recorded membership and topic changes under other policies.

Pure: no files, no wall clock, no randomness. Equal input gives equal rows, in any process.

    policies             how a group can be run, by name: ``cooperative/sticky+static+timeout=30s``
    recorded_rebalances  each recorded rebalance with the ownership and the absences around it
    per_rebalance        simulates each rebalance by itself, from the recorded previous owners
    cumulative           simulates all rebalances in sequence and carries the policy's state forward
    policy_state         the state that it carries forward, and its stored form, from which a
                         simulation continues when the history has grown
    clock                simulated time
    members              what members own, remember and send, and what each consumes at a moment
    rounds               one rebalance: members join, the strategy assigns, members get their part;
                         problems and plans that policies have in common
    commit_statistics    what offset commits say about rates and pauses
    stop_lengths         estimated unread time, with the stop lengths of the record
    costs                stopped partition-seconds and records read twice
    context              what all simulations of one group share
    metrics              the metric record of a simulated rebalance, and the judge that fills it
    rows                 assembles the metric records
    streams              Kafka Streams applications over time, with standbys and warm-ups

The two entry points work on plain values that can be pickled, so that a job can spread them:

    rebalances = tuple(recorded_rebalances(generations, clusters))   # one cheap pass, in order
    context = SimulationContext.of(clusters, rebalances, commits)
    for rebalance in rebalances:                                     # independent of each other
        rows += simulate_rebalance(rebalance, policies, context)
    rows += simulate_policies(rebalances, policies, context)         # in one pass, in order
"""

from __future__ import annotations
