package io.partage.assignors.broker;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.kafka.common.Uuid;

/**
 * An immutable map from topics to a member's partitions: slices of sorted arrays.
 *
 * <p>A hash map of hash sets would take most of the time of a plan, and 100 bytes for each partition.
 */
final class TargetMap extends AbstractMap<Uuid, Set<Integer>> {
    /** The topics of the member, ascending. */
    private final Uuid[] topics;
    /** The partitions of each topic. */
    private final PartitionSet[] partitions;

    /** Uses the arrays, which do not change any more. */
    TargetMap(Uuid[] topics, PartitionSet[] partitions) {
        this.topics = topics;
        this.partitions = partitions;
    }

    @Override
    public int size() {
        return topics.length;
    }

    @Override
    public Set<Integer> get(Object topic) {
        int at = topic instanceof Uuid ? Arrays.binarySearch(topics, topic) : -1;
        return at < 0 ? null : partitions[at];
    }

    @Override
    public boolean containsKey(Object topic) {
        return get(topic) != null;
    }

    @Override
    public void forEach(BiConsumer<? super Uuid, ? super Set<Integer>> action) {
        for (int t = 0; t < topics.length; t++) {
            action.accept(topics[t], partitions[t]);
        }
    }

    @Override
    public Set<Map.Entry<Uuid, Set<Integer>>> entrySet() {
        return new AbstractSet<>() {
            @Override
            public int size() {
                return topics.length;
            }

            @Override
            public Iterator<Map.Entry<Uuid, Set<Integer>>> iterator() {
                return new EntryIterator();
            }
        };
    }

    private final class EntryIterator implements Iterator<Map.Entry<Uuid, Set<Integer>>> {
        private int next;

        @Override
        public boolean hasNext() {
            return next < topics.length;
        }

        @Override
        public Map.Entry<Uuid, Set<Integer>> next() {
            if (next >= topics.length) {
                throw new NoSuchElementException();
            }
            return new SimpleImmutableEntry<>(topics[next], partitions[next++]);
        }
    }
}
