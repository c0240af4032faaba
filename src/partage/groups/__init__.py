"""Strategies that assign partitions to members of a group.

* `api` is the interface, `registry` finds strategies by name, `layout` has what they share;
* Kafka's: `range`, `roundrobin`, `sticky` (cooperative too), `server` (in the coordinator);
* Partage's: `optimal`, `fair`, `failover`; those of other clients: `dialects`, `faust`;
* a group over time: `negotiation` (of the strategy), `subscriptions` (user data that members send),
  `rounds` (successive rebalances).
"""
