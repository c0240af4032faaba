"""Assignors of other clients that use the protocol names of Kafka's Java client.

The leader of a classic group runs the assignor of its own library, and a protocol name such as
``range`` does not tell which library that is. Each class here equals one class or C function of a
client's release and is registered as ``client:protocol``, for example ``kafka-python:sticky``. They
are used to simulate recorded groups; `docs/dialects.md` lists the differences from Java.

* `kafka_python`, `aiokafka`, `librdkafka`, `go`: the strategies, one module per client; `go` has
  those of franz-go and Sarama.
* `sticky_core`: the general sticky algorithm of Kafka 2.3 and 2.4, which all clients but the Go
  ones use.
* `user_data`: encoding, decoding and memory of the claims in sticky user data.
* `problem`: a problem in the order in which the clients see it, `PeerAssignorError` for problems on
  which a client's own class fails, and the range and round-robin rules that several clients share.
"""

from __future__ import annotations

from partage.groups.dialects.problem import PeerAssignorError

__all__ = ["PeerAssignorError"]
