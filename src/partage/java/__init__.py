"""Pure reproductions of the parts of the JVM that decide plans or bytes (OpenJDK 17).

Kafka's classes iterate hash maps, sort with broken comparators and shuffle with seeds in places
where the order decides who owns a partition. Exact plans need the same orders:

* `strings`: ``String.hashCode``, ``compareTo``, ``new String(bytes, UTF_8)``, modified UTF-8;
* `uuids`: Kafka's ``Uuid``: text and hash;
* `hash_order`: iteration order of ``HashMap``, ``HashSet`` and Kafka's ``TimelineHashMap``, and a
  ``HashMap`` from which keys are also removed;
* `tree_bins`: the red-black trees into which a ``HashMap`` turns its crowded buckets;
* `list_sort`: ``List.sort`` (TimSort) under a comparator that contradicts itself;
* `priority_queue`: ``java.util.PriorityQueue``, whose mechanics order equal keys;
* `random`: ``java.util.Random`` and ``Collections.shuffle``.

Everything is checked against a JVM: the vectors in ``javaorder.jsonl`` hold iteration orders that
Java printed, and `tests/parity` compares plans that depend on each of these modules with Kafka's
own classes. Readers and writers of bytes are in `partage.wire`.
"""
