package io.partage.assignors.core;

import java.util.Arrays;

/** Helpers for arrays of numbers: a growing list, stable sorting of positions, offsets of rows. */
public final class Ints {
    private Ints() {
    }

    /** A list of ints without boxing. */
    static final class IntList {
        int[] values = new int[16];
        int size;

        void add(int value) {
            if (size == values.length) {
                values = Arrays.copyOf(values, size * 2);
            }
            values[size++] = value;
        }

        int[] toArray() {
            return Arrays.copyOf(values, size);
        }
    }

    /** Returns the numbers from 0 to {@code count - 1}. */
    static int[] range(int count) {
        int[] out = new int[count];
        for (int i = 0; i < count; i++) {
            out[i] = i;
        }
        return out;
    }

    /**
     * Returns positions such that their keys ascend; equal keys keep their order (counting sort).
     *
     * @param keys from 0 to {@code below - 1}
     */
    static int[] stableOrder(int[] keys, int below) {
        int[] at = offsets(keys, below);
        int[] order = new int[keys.length];
        for (int i = 0; i < keys.length; i++) {
            order[at[keys[i]]++] = i;
        }
        return order;
    }

    /** Returns the values at these positions. */
    static int[] picked(int[] values, int[] order) {
        int[] out = new int[order.length];
        for (int i = 0; i < order.length; i++) {
            out[i] = values[order[i]];
        }
        return out;
    }

    /** Returns for each key the position of its first entry in {@link #stableOrder}; one more at the end. */
    static int[] offsets(int[] keys, int below) {
        int[] start = new int[below + 1];
        for (int key : keys) {
            start[key + 1]++;
        }
        for (int k = 0; k < below; k++) {
            start[k + 1] += start[k];
        }
        return start;
    }

    /** Returns the rows of topics, topic after topic in the given order. */
    public static int[] rowsOf(int[] topics, int[] firstRow) {
        IntList rows = new IntList();
        for (int topic : topics) {
            for (int row = firstRow[topic]; row < firstRow[topic + 1]; row++) {
                rows.add(row);
            }
        }
        return rows.toArray();
    }

    /** Distinct keys in ascending order, and the position of each key among them. */
    static final class Ranked {
        final long[] distinct;
        final int[] rank;

        private Ranked(long[] distinct, int[] rank) {
            this.distinct = distinct;
            this.rank = rank;
        }
    }

    /**
     * Ranks keys: by a table if that is not much larger than the keys, else by sorting.
     *
     * @param keys from 0 to {@code below - 1}
     */
    static Ranked ranked(long[] keys, long below) {
        if (below > 4L * keys.length + 1024) {
            long[] distinct = distinct(keys);
            int[] rank = new int[keys.length];
            for (int i = 0; i < rank.length; i++) {
                rank[i] = Arrays.binarySearch(distinct, keys[i]);
            }
            return new Ranked(distinct, rank);
        }
        int[] table = new int[(int) below];
        int size = 0;
        for (long key : keys) {
            size += table[(int) key] == 0 ? 1 : 0;
            table[(int) key] = 1;
        }
        long[] distinct = new long[size];
        size = 0;
        for (int key = 0; key < table.length; key++) {
            if (table[key] != 0) {
                table[key] = size;
                distinct[size++] = key;
            }
        }
        int[] rank = new int[keys.length];
        for (int i = 0; i < rank.length; i++) {
            rank[i] = table[(int) keys[i]];
        }
        return new Ranked(distinct, rank);
    }

    /** Returns the distinct values in ascending order. */
    static long[] distinct(long[] values) {
        long[] sorted = values.clone();
        Arrays.sort(sorted);
        int size = 0;
        for (int i = 0; i < sorted.length; i++) {
            if (i == 0 || sorted[i] != sorted[i - 1]) {
                sorted[size++] = sorted[i];
            }
        }
        return Arrays.copyOf(sorted, size);
    }
}
