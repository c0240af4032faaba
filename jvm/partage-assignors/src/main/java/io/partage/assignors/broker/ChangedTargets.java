package io.partage.assignors.broker;

import io.partage.assignors.core.CountBalance;
import io.partage.assignors.core.GroupProblem;
import java.util.Arrays;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * The plan of a group with equal subscriptions, without reading the targets that stay.
 *
 * <p>A member that has as many partitions as the plan gives it keeps its target, which the plan does not
 * depend on. The targets of a group are many small sets that are not in a CPU's caches. The sizes
 * of all targets and the partitions with an owner show whether the targets are valid: they are if each
 * topic is known and there are as many partitions in targets as partitions with an owner. Small groups,
 * whose topics are spread by an exact search over all members, need all targets.
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
        return isHomogeneous ? new ChangedTargets(group).assignment() : null;
    }

    private GroupAssignment assignment() {
        // There are no more pairs of topic and owner than rows.
        if (!CountBalance.isPlannedInParts(group.counts.length, group.members.length, rows)) {
            return null;
        }
        SizeReader sizes = new SizeReader();
        boolean isPossible = sizes.isValid && sizes.owned > 0 && sizes.owned <= rows;
        int[] free = isPossible ? rowsWithoutOwner(rows - sizes.owned) : null;
        if (free == null) {
            return null;
        }
        int pairs = sizes.sets + topicsOf(free);
        if (!CountBalance.isPlannedInParts(group.counts.length, group.members.length, pairs)) {
            return null;
        }
        int[] changed = CountBalance.changedMembers(rows, sizes.ofMember);
        TargetReader reader = new TargetReader(group.position, group.counts, firstRow, 64);
        int expected = 0;
        for (int i = 0; i < changed.length; i++) {
            reader.read(group.members[changed[i]], i);
            expected += sizes.ofMember[changed[i]];
        }
        return reader.size == expected ? assigned(reader, free, changed) : null;
    }

    /** The sizes of all targets. */
    private final class SizeReader implements BiConsumer<Uuid, Set<Integer>> {
        /** Number of partitions in each target. */
        final int[] ofMember = new int[group.members.length];
        /** Number of partitions in all targets. */
        int owned;
        /** Number of pairs of topic and member. */
        int sets;
        /** False if a target has a topic without partitions. */
        boolean isValid = true;
        private int reading;

        SizeReader() {
            for (; reading < ofMember.length; reading++) {
                group.members[reading].previous.partitions().forEach(this);
            }
        }

        @Override
        public void accept(Uuid id, Set<Integer> set) {
            int size = set.size();
            ofMember[reading] += size;
            owned += size;
            sets++;
            isValid &= size > 0;
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

    /** Returns how many topics have one of these rows, which ascend. */
    private int topicsOf(int[] ascending) {
        int topics = 0;
        for (int t = 0, i = 0; t < group.counts.length && i < ascending.length; t++) {
            int before = i;
            while (i < ascending.length && ascending[i] < firstRow[t + 1]) {
                i++;
            }
            topics += i > before ? 1 : 0;
        }
        return topics;
    }

    /**
     * Plans the part of the group that changes: its members, what they own, and rows without owner; null if
     * a row has two owners.
     */
    private GroupAssignment assigned(TargetReader claims, int[] free, int[] changed) {
        // The owner of each row of the part: a place in it, or -1; -2 for rows of other members.
        int[] keeper = new int[rows];
        Arrays.fill(keeper, -2);
        for (int row : free) {
            keeper[row] = -1;
        }
        for (int i = 0; i < claims.size; i++) {
            if (keeper[claims.row[i]] != -2) {
                return null;
            }
            keeper[claims.row[i]] = claims.place[i];
        }
        int[] topic = new int[claims.size + free.length];
        int[] number = new int[topic.length];
        int[] counts = new int[group.counts.length];
        int[] claimPlace = new int[claims.size];
        int[] claimRow = new int[claims.size];
        int size = 0;
        int claimed = 0;
        for (int t = 0; t < counts.length; t++) {
            for (int row = firstRow[t]; row < firstRow[t + 1]; row++) {
                if (keeper[row] == -2) {
                    continue;
                }
                if (keeper[row] >= 0) {
                    claimPlace[claimed] = keeper[row];
                    claimRow[claimed++] = size;
                }
                counts[t]++;
                topic[size] = t;
                number[size++] = row - firstRow[t];
            }
        }
        int[] owner = new int[size];
        boolean[] stays = new boolean[group.members.length];
        Arrays.fill(stays, true);
        if (changed.length > 0) {
            GroupProblem problem = new GroupProblem(counts, new int[changed.length], group.topicsOf,
                claimPlace, claimRow, new int[changed.length], null, null);
            int[] planned = CountBalance.assignPart(problem, group.members.length);
            for (int i = 0; i < owner.length; i++) {
                owner[i] = changed[planned[i]];
            }
        }
        for (int m : changed) {
            stays[m] = false;
        }
        return group.assignment(topic, number, owner, stays);
    }
}
