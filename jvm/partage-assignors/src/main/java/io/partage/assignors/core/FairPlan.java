package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.stream.IntStream;

/** The plan of KIP-49's fair assignor: each partition goes to the least loaded subscriber. */
public final class FairPlan {
    private FairPlan() {
    }

    /**
     * Returns the topics in the order in which the fair assignor takes them: fewest subscribers first,
     * then most partitions, then in the given order.
     */
    public static int[] topicOrder(int[] counts, int[] subscription, int[][] topicsOf) {
        int[] sizes = new int[counts.length];
        for (int s : subscription) {
            for (int t : topicsOf[s]) {
                sizes[t]++;
            }
        }
        return IntStream.range(0, counts.length).boxed()
            .sorted(Comparator.<Integer>comparingInt(t -> sizes[t]).thenComparingInt(t -> -counts[t]))
            .mapToInt(Integer::intValue).toArray();
    }

    /**
     * Returns the place of each row's owner; -1 for a topic without subscribers.
     *
     * @param counts partitions of each topic, topics in canonical order
     * @param subscription the subscription of each place
     * @param topicsOf topics of each subscription
     */
    public static int[] owners(int[] counts, int[] subscription, int[][] topicsOf) {
        int[] first = GroupProblem.firstRows(counts);
        int[] owner = new int[first[counts.length]];
        Arrays.fill(owner, -1);
        IntList[] subscribers = new IntList[counts.length];
        for (int m = 0; m < subscription.length; m++) {
            for (int t : topicsOf[subscription[m]]) {
                subscribers[t] = subscribers[t] == null ? new IntList() : subscribers[t];
                subscribers[t].add(m);
            }
        }
        int[] load = new int[subscription.length];
        for (int t : topicOrder(counts, subscription, topicsOf)) {
            if (subscribers[t] == null) {
                continue;
            }
            PriorityQueue<Integer> least = new PriorityQueue<>(
                Comparator.<Integer>comparingInt(m -> load[m]).thenComparingInt(m -> m));
            for (int i = 0; i < subscribers[t].size; i++) {
                least.add(subscribers[t].values[i]);
            }
            for (int row = first[t]; row < first[t + 1]; row++) {
                int m = least.poll();
                owner[row] = m;
                load[m]++;
                least.add(m);
            }
        }
        return owner;
    }
}
