package io.partage.assignors.broker;

import io.partage.assignors.core.CountBalance;
import io.partage.assignors.core.GroupProblem;
import java.util.Arrays;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * The plan of a large group with equal subscriptions, without reading the targets that stay.
 *
 * <p>A member that has as many partitions as the plan gives it keeps its target, which the plan does not
 * depend on. The targets of a large group are many small sets that are not in a CPU's caches. The sizes
 * of all targets and the partitions with an owner show whether the targets are valid: they are if each
 * topic is known and there are as many partitions in targets as partitions with an owner.
 */
final class ChangedTargets {
    private final BrokerGroup group;
    private final int[] firstRow;
    private final int rows;

    private ChangedTargets(BrokerGroup group) {
        this.group = group;
        firstRow = GroupProblem.firstRows(group.counts);
        rows = firstRow[group.counts.length];
    }

    /** Returns the assignment, or null if that needs all targets. */
    static GroupAssignment assignment(BrokerGroup group) {
        boolean isHomogeneous = group.topicsOf.length == 1 && group.topicsOf[0].length == group.counts.length;
        if (!isHomogeneous || !CountBalance.isPlannedInParts(group.counts, group.members.length)) {
            return null;
        }
        return new ChangedTargets(group).assignment();
    }

    private GroupAssignment assignment() {
        int[] sizes = sizes();
        int owned = sizes == null ? 0 : Arrays.stream(sizes).sum();
        int[] free = owned == 0 || owned > rows ? null : rowsWithoutOwner(rows - owned);
        if (free == null) {
            return null;
        }
        int[] changed = CountBalance.changedMembers(rows, sizes);
        TargetReader reader = new TargetReader(group.position, group.counts, firstRow, 64);
        int expected = 0;
        for (int i = 0; i < changed.length; i++) {
            reader.read(group.members[changed[i]], i);
            expected += sizes[changed[i]];
        }
        // The owner of each row of the part: a place in it, or -1; -2 for rows of other members.
        int[] keeper = new int[rows];
        Arrays.fill(keeper, -2);
        for (int row : free) {
            keeper[row] = -1;
        }
        for (int i = 0; i < reader.size; i++) {
            if (keeper[reader.row[i]] != -2) {
                return null;
            }
            keeper[reader.row[i]] = reader.place[i];
        }
        return reader.size == expected ? assigned(keeper, changed) : null;
    }

    /** Returns the number of partitions in each target; null if one has a topic that is unknown or empty. */
    private int[] sizes() {
        int[] sizes = new int[group.members.length];
        SizeReader reader = new SizeReader();
        for (int m = 0; m < sizes.length; m++) {
            reader.size = 0;
            group.members[m].previous.partitions().forEach(reader);
            sizes[m] = reader.size;
        }
        return reader.isValid ? sizes : null;
    }

    private final class SizeReader implements BiConsumer<Uuid, Set<Integer>> {
        private int size;
        private boolean isValid = true;

        @Override
        public void accept(Uuid id, Set<Integer> set) {
            size += set.size();
            isValid &= !set.isEmpty();
        }
    }

    /** Returns the rows that no target has, ascending; null if their number is not the expected one. */
    private int[] rowsWithoutOwner(int expected) {
        int[] free = new int[expected];
        int size = 0;
        for (int t = 0; t < group.counts.length; t++) {
            for (int number = 0; number < group.counts[t]; number++) {
                if (!group.spec.isPartitionAssigned(group.topics[t], number)) {
                    if (size == expected) {
                        return null;
                    }
                    free[size++] = firstRow[t] + number;
                }
            }
        }
        return size == expected ? free : null;
    }

    /** Plans the part of the group that changes: its members, what they own, and rows without owner. */
    private GroupAssignment assigned(int[] keeper, int[] changed) {
        int[] counts = new int[group.counts.length];
        int[] rowOf = new int[rows];
        int[] claimPlace = new int[rows];
        int[] claimRow = new int[rows];
        int size = 0;
        int claims = 0;
        for (int t = 0; t < counts.length; t++) {
            for (int row = firstRow[t]; row < firstRow[t + 1]; row++) {
                if (keeper[row] == -2) {
                    continue;
                }
                if (keeper[row] >= 0) {
                    claimPlace[claims] = keeper[row];
                    claimRow[claims++] = size;
                }
                counts[t]++;
                rowOf[size++] = row;
            }
        }
        int[] owner = new int[rows];
        Arrays.fill(owner, -1);
        boolean[] stays = new boolean[group.members.length];
        Arrays.fill(stays, true);
        if (changed.length > 0) {
            GroupProblem part = new GroupProblem(counts, new int[changed.length], group.topicsOf,
                Arrays.copyOf(claimPlace, claims), Arrays.copyOf(claimRow, claims), new int[changed.length], null, null);
            int[] planned = CountBalance.assignPart(part, group.members.length);
            for (int i = 0; i < size; i++) {
                owner[rowOf[i]] = changed[planned[i]];
            }
        }
        for (int m : changed) {
            stays[m] = false;
        }
        return group.assignment(owner, stays);
    }
}
