"""Assignors and message layouts of old releases, and proposals that were never released.

Kafka no longer has any of these. They are used to replay old groups and to compare today's
assignors with their predecessors:

=====================  ===========================================================================
`roundrobin_0_8`       ``roundrobin:0.8``, the high-level consumer of Kafka 0.8
`streams_0_x`          ``streams:0.10.2`` and ``streams:0.11``, old assignors of Streams (2017)
`kip441_document`      ``streams:kip-441-document``, KIP-441 before its implementation
`kip441_messages`      the layouts that KIP-441's document proposed, and the lags that they carry
=====================  ===========================================================================

Modules here import the main packages, and no other module imports them. The registries
(`partage.groups.registry`, `partage.streams.registry`) name them by string and load them on demand.
``tests/architecture/test_rooms.py`` checks both.
"""
