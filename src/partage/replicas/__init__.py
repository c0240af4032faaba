"""Placement of replicas on brokers as Kafka does it, and the tasks and files of reassignments.

Placement of new topics:

* `placing`: `place`, `extend` and `StripedPlacer`, and the placement of ``AdminUtils`` (up to Kafka
  3.9);
* `striped`: the KRaft controller's ``StripedReplicaPlacer``;
* `draws`: the numbers of ``java.util.Random``.

Reassignment, planned by `partage.api.reassignments`:

* `cluster_parser`: a cluster with sizes and loads from JSON;
* `bands`: shares and tolerances of brokers, racks and disks;
* `tasks`: a `ReplicaTask` for each command;
* `moves` and `batches`: the copies of a plan, and their order;
* `tables`: rows of the report; `kafka_json` and `scripts`: files for Kafka's own tools.
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
