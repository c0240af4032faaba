package io.partage.assignors.core;

import java.util.Arrays;

/**
 * The limit on sorted loads as steps: ranges of load levels that equally many loads reach.
 *
 * <p>A member sends at most {@code width} over a step, and all members at most {@code width *
 * reaching} (the staircase of Gale and Ryser).
 */
final class Staircase {
    final long[] reaching;
    final long[] width;

    Staircase(long[] loads) {
        long[] sorted = Arrays.stream(loads).filter(one -> one > 0).sorted().toArray();
        long[] values = Ints.distinct(sorted);
        reaching = new long[values.length];
        width = new long[values.length];
        int smaller = 0;
        for (int j = 0; j < values.length; j++) {
            reaching[j] = sorted.length - smaller;
            width[j] = values[j] - (j == 0 ? 0 : values[j - 1]);
            while (smaller < sorted.length && sorted[smaller] == values[j]) {
                smaller++;
            }
        }
    }

    int steps() {
        return width.length;
    }

    /** Splits each load into its part of each step, the lowest first; earlier loads take precedence. */
    long[][] climb(long[] load) {
        long[] left = load.clone();
        long[][] climbs = new long[load.length][steps()];
        for (int j = 0; j < steps(); j++) {
            long wished = 0;
            for (int i = 0; i < left.length; i++) {
                long wish = Math.min(left[i], width[j]);
                climbs[i][j] = Math.min(Math.max(reaching[j] * width[j] - wished, 0), wish);
                wished += wish;
                left[i] -= climbs[i][j];
            }
        }
        return climbs;
    }
}
