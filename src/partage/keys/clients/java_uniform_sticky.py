"""Kafka's `UniformStickyPartitioner` (KIP-480): the sticky cache for all records."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.java_sticky_cache import StickyCachePartitioner

__all__ = ["JavaUniformSticky"]


class JavaUniformSticky(StickyCachePartitioner):
    """All records stay with one partition a batch, whatever their keys; last in 3.9.1."""

    name = "java:uniform-sticky"
    exact_to = "org.apache.kafka.clients.producer.UniformStickyPartitioner 3.9.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.UniformStickyPartitioner",
    )
