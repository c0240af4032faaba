package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Classes of topics with equal subscribers and of members with equal subscriptions.
 *
 * <p>Loads depend only on how many partitions go from a topic class to a member class.
 */
final class SubscriptionClasses {
    /** Class of each topic, -1 if it has no partition or no subscriber. */
    final int[] topic;
    /** Class of each place, -1 if it subscribes to no such topic. */
    final int[] member;
    /** Partitions of each topic class. */
    final long[] supply;
    /** Members of each member class. */
    final int[] size;
    /** The eligible pairs of classes, by topic class, then by member class. */
    final int[] arcTopic;
    final int[] arcMember;

    SubscriptionClasses(GroupProblem problem) {
        List<int[]> subscriptions = new ArrayList<>();
        for (int[] topics : problem.topicsOf) {
            subscriptions.add(Arrays.stream(topics).filter(t -> problem.counts[t] > 0).toArray());
        }
        List<int[]> memberRows = new ArrayList<>();
        int[] classOfSubscription = equalRows(subscriptions, memberRows);
        member = new int[problem.members];
        size = new int[memberRows.size()];
        for (int m = 0; m < member.length; m++) {
            member[m] = classOfSubscription[problem.subscription[m]];
            if (member[m] >= 0) {
                size[member[m]]++;
            }
        }
        IntList[] subscribers = new IntList[problem.topics];
        for (int c = 0; c < memberRows.size(); c++) {
            for (int t : memberRows.get(c)) {
                subscribers[t] = subscribers[t] == null ? new IntList() : subscribers[t];
                subscribers[t].add(c);
            }
        }
        List<int[]> byTopic = new ArrayList<>();
        for (IntList one : subscribers) {
            byTopic.add(one == null ? new int[0] : one.toArray());
        }
        List<int[]> topicRows = new ArrayList<>();
        topic = equalRows(byTopic, topicRows);
        supply = new long[topicRows.size()];
        for (int t = 0; t < topic.length; t++) {
            if (topic[t] >= 0) {
                supply[topic[t]] += problem.counts[t];
            }
        }
        IntList left = new IntList();
        IntList right = new IntList();
        for (int b = 0; b < topicRows.size(); b++) {
            for (int c : topicRows.get(b)) {
                left.add(b);
                right.add(c);
            }
        }
        arcTopic = left.toArray();
        arcMember = right.toArray();
    }

    /** Numbers equal rows by first occurrence, -1 for an empty one; adds the distinct ones to a list. */
    private static int[] equalRows(List<int[]> rows, List<int[]> distinct) {
        Map<IntBuffer, Integer> seen = new HashMap<>();
        int[] of = new int[rows.size()];
        for (int i = 0; i < of.length; i++) {
            int[] row = rows.get(i);
            if (row.length == 0) {
                of[i] = -1;
                continue;
            }
            Integer before = seen.putIfAbsent(IntBuffer.wrap(row), seen.size());
            if (before == null) {
                distinct.add(row);
            }
            of[i] = before == null ? seen.size() - 1 : before;
        }
        return of;
    }
}
