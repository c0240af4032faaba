package io.partage.assignors.core;

/** Partitions by topic and member, of those members only that an exchange of partitions may concern. */
final class TopicCounts {
    /** Position of each place among these members, -1 for the others. */
    private final int[] position;
    private final int width;
    private final int[] counts;

    /** Counts the partitions of the members whose place is marked. */
    TopicCounts(GroupProblem problem, int[] owner, boolean[] concerned) {
        position = new int[problem.members];
        int size = 0;
        for (int m = 0; m < position.length; m++) {
            position[m] = concerned[m] ? size++ : -1;
        }
        width = size;
        counts = new int[problem.topics * width];
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] >= 0 && concerned[owner[row]]) {
                counts[problem.topicOf[row] * width + position[owner[row]]]++;
            }
        }
    }

    int of(int topic, int place) {
        return counts[topic * width + position[place]];
    }

    /** Returns how many more partitions of a topic one member has than another. */
    int difference(int topic, int one, int other) {
        return of(topic, one) - of(topic, other);
    }

    void add(int topic, int place, int change) {
        counts[topic * width + position[place]] += change;
    }

    long sumOfSquares() {
        long sum = 0;
        for (int count : counts) {
            sum += (long) count * count;
        }
        return sum;
    }
}
