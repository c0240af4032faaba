"""Forecasts for a consumer group: how many consumers it needs, and what changes to it will cost.

Pure: no files, no wall clock; chance comes from a seed. Equal input gives equal results.

    group_protocols  groups whose members stop and start in simulated time
    growth           keys that a larger partition count moves, and the steps that keep their order
    loads            rates of each partition and the capacity of a consumer, from commit rates
    measured         a group of a running cluster as the input of forecasts
    migration        readiness of a group for another rebalance protocol
    pictures         results as SVG
    random_draws     random numbers from a seed
    restarts         evidence of a group's record about restarts of its members
    rolling          the cost of a rolling deployment, by simulation
    sizing           the load of the busiest consumer for each number of them, autoscaler settings
"""

from __future__ import annotations
