package io.partage.assignors.broker;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.kafka.common.Uuid;

/**
 * Reads members' targets, which are maps of sets, into arrays of claims: existing partitions only.
 *
 * <p>{@code forEach} and {@code toArray} need no iterator for each of these sets.
 */
final class TargetReader implements BiConsumer<Uuid, Set<Integer>> {
    /** Place and row of each claim; the first {@link #size} entries count. */
    int[] place;
    int[] row;
    int size;

    private final Map<Uuid, Integer> position;
    private final int[] counts;
    private final int[] firstRow;
    private Object[] numbers = new Object[64];
    private int reading;
    private int targetSize;
    private boolean hasEmptyTopic;

    /**
     * Makes a reader without claims.
     *
     * @param position number of each topic
     * @param counts partitions of each topic
     * @param firstRow first row of each topic
     * @param expected number of claims that are expected; more are possible
     */
    TargetReader(Map<Uuid, Integer> position, int[] counts, int[] firstRow, int expected) {
        this.position = position;
        this.counts = counts;
        this.firstRow = firstRow;
        place = new int[expected];
        row = new int[expected];
    }

    /** Reads a member's target as claims of a place; returns its size, or -1 if it has an empty topic. */
    int read(BrokerMember member, int of) {
        reading = of;
        targetSize = 0;
        hasEmptyTopic = false;
        member.previous.partitions().forEach(this);
        return hasEmptyTopic ? -1 : targetSize;
    }

    @Override
    public void accept(Uuid id, Set<Integer> set) {
        int count = set.size();
        targetSize += count;
        hasEmptyTopic |= count == 0;
        Integer topic = position.get(id);
        if (topic == null) {
            return;
        }
        if (size + count > place.length) {
            place = Arrays.copyOf(place, 2 * (size + count));
            row = Arrays.copyOf(row, place.length);
        }
        if (set instanceof PartitionSet) {
            PartitionSet own = (PartitionSet) set;
            for (int i = own.begin; i < own.end; i++) {
                add(topic, own.numbers[i]);
            }
            return;
        }
        numbers = set.toArray(numbers);
        for (int i = 0; i < count; i++) {
            add(topic, (Integer) numbers[i]);
        }
    }

    private void add(int topic, int number) {
        if (number >= 0 && number < counts[topic]) {
            place[size] = reading;
            row[size++] = firstRow[topic] + number;
        }
    }
}
