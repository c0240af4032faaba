"""Which brokers hold a partition's replicas: placed as Kafka places them.

Which file answers what: `placing` is the door (`place`, `extend`), `adminutils` and `striped`
are Kafka's two ways, `draws` reproduces Java's numbers.
"""

from __future__ import annotations

from partage.replicas.placing import StripedPlacer, default_directory, extend, place, strategies

__all__ = ["StripedPlacer", "default_directory", "extend", "place", "strategies"]
