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

    PartitionClasses(GroupProblem problem, SubscriptionClasses classes) {
        ofRow = new int[problem.rows];
        if (problem.racks == null) {
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
        long[] distinct = Ints.distinct(key);
        System.arraycopy(Ints.ranks(key, distinct), 0, ofRow, 0, key.length);
        topicClass = new int[distinct.length];
        profile = new int[distinct.length];
        for (int c = 0; c < distinct.length; c++) {
            topicClass[c] = (int) (distinct[c] / cost.length);
            profile[c] = (int) (distinct[c] % cost.length);
        }
        int wide = cost[0].length;
        long[] of = new long[problem.members];
        for (int m = 0; m < of.length; m++) {
            of[m] = classes.member[m] < 0 ? -1 : (long) classes.member[m] * wide + problem.racks.column[m];
        }
        long[] both = Arrays.stream(Ints.distinct(of)).filter(one -> one >= 0).toArray();
        group = Ints.ranks(of, both);
        for (int m = 0; m < of.length; m++) {
            group[m] = of[m] < 0 ? -1 : group[m];
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
