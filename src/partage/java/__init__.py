"""Reproductions of the parts of the JVM that decide plans or bytes, in pure Python (OpenJDK 17).

Kafka's classes iterate hash maps, sort with inconsistent comparators and shuffle with seeds in
places where the order decides which member owns a partition. Exact plans need the same orders:

* `strings`: ``String.hashCode``, ``compareTo``, ``new String(bytes, UTF_8)``, modified UTF-8;
* `uuids`: Kafka's ``Uuid``: text and hash;
* `hash_order`: iteration order of ``HashMap``, ``HashSet`` and Kafka's ``TimelineHashMap``, and a
  ``HashMap`` from which keys are also removed;
* `tree_bins`: the red-black trees into which a ``HashMap`` converts its crowded buckets;
* `list_sort`: ``List.sort`` (TimSort) with a comparator that contradicts itself;
* `priority_queue`: ``java.util.PriorityQueue``, whose heap steps decide the order of equal keys;
* `random`: ``java.util.Random`` and ``Collections.shuffle``.

Everything is checked against a JVM: the vectors in ``javaorder.jsonl`` are iteration orders that
Java printed, and `tests/parity` compares plans that depend on each of these modules with Kafka's
own classes. Encoders and decoders of bytes are in `partage.wire`.
"""
