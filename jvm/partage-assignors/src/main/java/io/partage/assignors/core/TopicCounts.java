package io.partage.assignors.core;

/** Partitions by member and topic, of those members only that an exchange of partitions may concern. */
final class TopicCounts {
    /** Position of each place among these members, -1 for the others. */
    private final int[] position;
    private final int topics;
    private final int[] counts;

    /** Counts the partitions of the members whose place is marked. */
    TopicCounts(GroupProblem problem, int[] owner, boolean[] concerned) {
        position = new int[problem.members];
        int size = 0;
        for (int m = 0; m < position.length; m++) {
            position[m] = concerned[m] ? size++ : -1;
        }
        topics = problem.topics;
        counts = new int[topics * size];
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] >= 0 && concerned[owner[row]]) {
                counts[position[owner[row]] * topics + problem.topicOf[row]]++;
            }
        }
    }

    int of(int topic, int place) {
        return counts[position[place] * topics + topic];
    }

    /** Returns how many more partitions of a topic one member has than another. */
    int difference(int topic, int one, int other) {
        return of(topic, one) - of(topic, other);
    }

    /** Returns the most partitions of one topic that a member has. */
    int most(int place) {
        int most = 0;
        int begin = position[place] * topics;
        for (int i = begin; i < begin + topics; i++) {
            most = Math.max(most, counts[i]);
        }
        return most;
    }

    void add(int topic, int place, int change) {
        counts[position[place] * topics + topic] += change;
    }

    long sumOfSquares() {
        long sum = 0;
        for (int count : counts) {
            sum += (long) count * count;
        }
        return sum;
    }
}
