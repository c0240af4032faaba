package io.partage.assignors.broker;

import java.util.AbstractSet;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;

/** An immutable set of partition numbers of one topic: a slice of a sorted array, without boxed numbers. */
final class PartitionSet extends AbstractSet<Integer> {
    final int[] numbers;
    final int begin;
    final int end;

    /** Uses the numbers from {@code begin} to {@code end - 1}, which ascend and do not change any more. */
    PartitionSet(int[] numbers, int begin, int end) {
        this.numbers = numbers;
        this.begin = begin;
        this.end = end;
    }

    @Override
    public int size() {
        return end - begin;
    }

    @Override
    public boolean contains(Object number) {
        return number instanceof Integer && Arrays.binarySearch(numbers, begin, end, (Integer) number) >= 0;
    }

    @Override
    public Iterator<Integer> iterator() {
        return new Iterator<>() {
            private int next = begin;

            @Override
            public boolean hasNext() {
                return next < end;
            }

            @Override
            public Integer next() {
                if (next >= end) {
                    throw new NoSuchElementException();
                }
                return numbers[next++];
            }
        };
    }
}
