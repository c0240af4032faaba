package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The arcs of the transportation problem from classes of partitions to members.
 *
 * <p>Contested partitions (that several members may keep) form further classes. The cost of an arc is
 * the rack cost times a weight, minus 1 for partitions that stay.
 */
final class TransportArcs {
    /** Class of each row, contested ones included. */
    final int[] ofRow;
    /** Keep arc of each row with one keeper, else -1. */
    final int[] cell;
    /** Number of keep arcs of rows with one keeper; those of contested classes follow. */
    final int cells;
    final long[] supply;
    final int[] keepClass;
    final int[] keepMember;
    final long[] keepMost;
    final long[] keepCost;
    final int[] freeClass;
    final int[] freeGroup;
    final long[] freeCost;

    TransportArcs(GroupProblem problem, SubscriptionClasses subscriptions, PartitionClasses classes) {
        long weight = problem.ownedRows() + 1L;
        int plain = classes.topicClass.length;
        ofRow = classes.ofRow.clone();
        Map<IntBuffer, Integer> contested = contestedClasses(problem, plain);
        int[] base = Arrays.copyOf(Ints.range(plain), plain + contested.size());
        contested.forEach((key, number) -> base[number] = key.get(0));
        supply = new long[base.length];
        for (int of : ofRow) {
            supply[of]++;
        }
        long[] keys = new long[problem.rows];
        int sole = 0;
        for (int row = 0; row < keys.length; row++) {
            if (problem.keeper[row] >= 0) {
                keys[sole++] = (long) ofRow[row] * problem.members + problem.keeper[row];
            }
        }
        Ints.Ranked pairs = Ints.ranked(Arrays.copyOf(keys, sole), (long) base.length * problem.members);
        long[] distinct = pairs.distinct;
        int[] rank = pairs.rank;
        cells = distinct.length;
        cell = new int[problem.rows];
        IntList keepOf = new IntList();
        IntList keepBy = new IntList();
        for (long key : distinct) {
            keepOf.add((int) (key / problem.members));
            keepBy.add((int) (key % problem.members));
        }
        contested.forEach((key, number) -> {
            for (int i = 1; i < key.limit(); i++) {
                keepOf.add(number);
                keepBy.add(key.get(i));
            }
        });
        keepClass = keepOf.toArray();
        keepMember = keepBy.toArray();
        keepMost = new long[keepClass.length];
        for (int row = 0, nth = 0; row < cell.length; row++) {
            cell[row] = problem.keeper[row] >= 0 ? rank[nth++] : -1;
            if (cell[row] >= 0) {
                keepMost[cell[row]]++;
            }
        }
        keepCost = new long[keepClass.length];
        for (int i = 0; i < keepClass.length; i++) {
            if (i >= cells) {
                keepMost[i] = supply[keepClass[i]];
            }
            int column = classes.column[classes.group[keepMember[i]]];
            keepCost[i] = classes.cost[classes.profile[base[keepClass[i]]]][column] * weight - 1;
        }
        IntList freeOf = new IntList();
        IntList freeTo = new IntList();
        eligiblePairs(subscriptions, classes, base, freeOf, freeTo);
        freeClass = freeOf.toArray();
        freeGroup = freeTo.toArray();
        freeCost = new long[freeClass.length];
        for (int i = 0; i < freeCost.length; i++) {
            freeCost[i] = classes.cost[classes.profile[base[freeClass[i]]]][classes.column[freeGroup[i]]] * weight;
        }
    }

    /**
     * Numbers the classes of contested partitions, and writes them to {@code ofRow}.
     *
     * <p>A key has the class without regard to claims, then the keepers.
     */
    private Map<IntBuffer, Integer> contestedClasses(GroupProblem problem, int plain) {
        Map<IntBuffer, Integer> number = new LinkedHashMap<>();
        for (int i = 0; i < problem.contested.length; i++) {
            int row = problem.contested[i];
            int begin = problem.keeperStart[i];
            int end = problem.keeperStart[i + 1];
            int[] key = new int[1 + end - begin];
            key[0] = ofRow[row];
            System.arraycopy(problem.keepers, begin, key, 1, end - begin);
            ofRow[row] = number.computeIfAbsent(IntBuffer.wrap(key), any -> plain + number.size());
        }
        return number;
    }

    /** Adds the pairs of partition class and member group whose members subscribe to the topics. */
    private static void eligiblePairs(
            SubscriptionClasses subscriptions, PartitionClasses classes, int[] base,
            IntList freeOf, IntList freeTo) {
        int[] groups = Ints.stableOrder(classes.memberClass, subscriptions.size.length);
        int[] firstGroup = Ints.offsets(classes.memberClass, subscriptions.size.length);
        int[] firstArc = Ints.offsets(subscriptions.arcTopic, subscriptions.supply.length);
        for (int c = 0; c < base.length; c++) {
            int topic = classes.topicClass[base[c]];
            for (int arc = firstArc[topic]; arc < firstArc[topic + 1]; arc++) {
                int of = subscriptions.arcMember[arc];
                for (int k = firstGroup[of]; k < firstGroup[of + 1]; k++) {
                    freeOf.add(c);
                    freeTo.add(groups[k]);
                    if (freeOf.size > FlowNetwork.LARGEST) {
                        throw new WorkLimitException("the cheapest plan needs a network of more than "
                            + FlowNetwork.LARGEST + " arcs");
                    }
                }
            }
        }
    }
}
