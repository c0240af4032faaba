package io.partage.assignors.core;

import java.util.Arrays;

/**
 * Classes of interchangeable partitions and groups of interchangeable members.
 *
 * <p>Interchangeable means equal subscriptions and rack costs; claims do not count.
 */
final class PartitionClasses {
    final int[] ofRow;
    /** Topic class and rack profile of each class. */
    final int[] topicClass;
    final int[] profile;
    /** Group of each place, -1 for a member that may own nothing. */
    final int[] group;
    final int groups;
    /** Member class and rack column of each group. */
    final int[] memberClass;
    final int[] column;
    /** Rack cost by profile and column. */
    final int[][] cost;

    /** Makes the only class and the only group of a problem whose partitions and members are equivalent. */
    PartitionClasses(GroupProblem problem) {
        ofRow = new int[problem.rows];
        topicClass = new int[1];
        profile = new int[1];
        group = new int[problem.members];
        groups = 1;
        memberClass = new int[1];
        column = new int[1];
        cost = problem.racks == null ? new int[1][1] : problem.racks.cost;
    }

    PartitionClasses(GroupProblem problem, SubscriptionClasses classes) {
        if (problem.racks == null) {
            ofRow = new int[problem.rows];
            for (int row = 0; row < ofRow.length; row++) {
                ofRow[row] = classes.topic[problem.topicOf[row]];
            }
            topicClass = Ints.range(classes.supply.length);
            profile = new int[topicClass.length];
            group = classes.member;
            groups = classes.size.length;
            memberClass = Ints.range(groups);
            column = new int[groups];
            cost = new int[1][1];
            return;
        }
        cost = problem.racks.cost;
        long[] key = new long[problem.rows];
        for (int row = 0; row < key.length; row++) {
            key[row] = (long) classes.topic[problem.topicOf[row]] * cost.length + problem.racks.profile[row];
        }
        Ints.Ranked rows = Ints.ranked(key, (long) classes.supply.length * cost.length);
        long[] distinct = rows.distinct;
        ofRow = rows.rank;
        topicClass = new int[distinct.length];
        profile = new int[distinct.length];
        for (int c = 0; c < distinct.length; c++) {
            topicClass[c] = (int) (distinct[c] / cost.length);
            profile[c] = (int) (distinct[c] % cost.length);
        }
        int wide = cost[0].length;
        long[] of = new long[problem.members];
        int takePart = 0;
        for (int m = 0; m < problem.members; m++) {
            if (classes.member[m] >= 0) {
                of[takePart++] = (long) classes.member[m] * wide + problem.racks.column[m];
            }
        }
        Ints.Ranked members = Ints.ranked(Arrays.copyOf(of, takePart), (long) classes.size.length * wide);
        long[] both = members.distinct;
        group = new int[problem.members];
        for (int m = 0, nth = 0; m < group.length; m++) {
            group[m] = classes.member[m] < 0 ? -1 : members.rank[nth++];
        }
        groups = both.length;
        memberClass = new int[groups];
        column = new int[groups];
        for (int g = 0; g < groups; g++) {
            memberClass[g] = (int) (both[g] / wide);
            column[g] = (int) (both[g] % wide);
        }
    }
}
