"""Placement of replicas on brokers as Kafka does it, and the tasks and files of reassignments.

Placement of new topics:
    placing          `place`, `place_added_partitions`, and ``AdminUtils`` (up to Kafka 3.9)
    striped          the KRaft controller's ``StripedReplicaPlacer``
    draws            the numbers of ``java.util.Random``

Reassignment, planned by `partage.api.reassignments`:
    cluster_parser   a cluster with sizes and loads from JSON
    tasks            a `ReplicaTask` for each command
    bands            shares and tolerances of brokers, racks and disks
    moves            the copies of a plan
    batches          their order
    tables           rows of the report
    kafka_json       files for Kafka's own tools
    scripts          shell scripts that run these tools
"""

from __future__ import annotations

from partage.replicas.placing import (
    StripedPlacer,
    default_directory,
    place,
    place_added_partitions,
    strategies,
)

__all__ = ["StripedPlacer", "default_directory", "place", "place_added_partitions", "strategies"]
