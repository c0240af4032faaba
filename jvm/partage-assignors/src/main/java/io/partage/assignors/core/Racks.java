package io.partage.assignors.core;

import io.partage.assignors.core.GroupProblem.RackCosts;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * Rack costs: 1 for a partition without a replica on its member's rack, else 0.
 *
 * <p>Members without a rack, and partitions whose replicas have no known rack, cost nothing.
 * Partitions with equal costs share a profile, and members with equal costs a column.
 */
final class Racks {
    /** Racks per bit mask of Partage's Python classes: the masks are compared in chunks of so many. */
    private static final int CHUNK = 50;
    /** Entries of the largest table of rack costs: 64 MiB. */
    private static final long MOST_COSTS = 1L << 24;

    private Racks() {
    }

    static RackCosts costs(String[] rackOf, RackSets racksOf) {
        if (racksOf.isEmpty()) {
            return new RackCosts(new int[racksOf.setOf.length], new int[rackOf.length], new int[1][1]);
        }
        Map<String, Integer> memberRack = numbered(Arrays.asList(rackOf));
        Set<String> names = new HashSet<>();
        racksOf.sets.forEach(names::addAll);
        Map<String, Integer> replicaRack = numbered(names);
        int nowhere = memberRack.size();
        int[] rack = new int[rackOf.length];
        for (int m = 0; m < rack.length; m++) {
            rack[m] = rackOf[m] == null ? nowhere : memberRack.get(rackOf[m]);
        }
        List<BitSet> masks = new ArrayList<>();
        for (Set<String> one : racksOf.sets) {
            BitSet mask = new BitSet();
            one.forEach(name -> mask.set(replicaRack.get(name)));
            masks.add(mask);
        }
        // The sets of replica racks, in the order of Python's bit masks.
        List<BitSet> sets = new ArrayList<>(masks);
        sets.sort(Racks::compareMasks);
        if (sets.size() * (nowhere + 1L) > MOST_COSTS) {
            throw new WorkLimitException("the rack costs of " + sets.size() + " sets of racks and " + nowhere
                + " racks of members are more than " + MOST_COSTS);
        }
        int[][] cost = new int[sets.size()][nowhere + 1];
        for (int k = 0; k < cost.length; k++) {
            for (Map.Entry<String, Integer> one : memberRack.entrySet()) {
                Integer replica = replicaRack.get(one.getKey());
                boolean near = sets.get(k).isEmpty() || replica != null && sets.get(k).get(replica);
                cost[k][one.getValue()] = near ? 0 : 1;
            }
        }
        Map<BitSet, Integer> rank = new HashMap<>();
        for (int k = 0; k < cost.length; k++) {
            rank.put(sets.get(k), k);
        }
        int[] sorted = masks.stream().mapToInt(rank::get).toArray();
        int[] profile = new int[racksOf.setOf.length];
        for (int p = 0; p < profile.length; p++) {
            profile[p] = sorted[racksOf.setOf[p]];
        }
        return merged(profile, rack, cost);
    }

    /** Merges equal columns of the members' racks, then equal rows of the partitions' rack sets. */
    private static RackCosts merged(int[] profile, int[] rack, int[][] cost) {
        if (profile.length == 0 || rack.length == 0) {
            return new RackCosts(new int[profile.length], new int[rack.length], new int[1][1]);
        }
        int[] column = distinctRows(transposed(cost), rack);
        int[][] columns = transposed(picked(transposed(cost), rack, column));
        int[] row = distinctRows(columns, profile);
        return new RackCosts(row, column, picked(columns, profile, row));
    }

    /** Returns the number of each used row of a table among its distinct used rows, in table order. */
    private static int[] distinctRows(int[][] table, int[] used) {
        boolean[] present = new boolean[table.length];
        for (int one : used) {
            present[one] = true;
        }
        Map<List<Integer>, Integer> seen = new HashMap<>();
        int[] number = new int[table.length];
        for (int i = 0; i < table.length; i++) {
            if (present[i]) {
                List<Integer> key = new ArrayList<>();
                for (int value : table[i]) {
                    key.add(value);
                }
                Integer before = seen.putIfAbsent(key, seen.size());
                number[i] = before == null ? seen.size() - 1 : before;
            }
        }
        int[] out = new int[used.length];
        for (int i = 0; i < used.length; i++) {
            out[i] = number[used[i]];
        }
        return out;
    }

    /** Returns the distinct rows of a table by their numbers. */
    private static int[][] picked(int[][] table, int[] used, int[] number) {
        int[][] out = new int[Arrays.stream(number).max().orElse(-1) + 1][];
        for (int i = 0; i < used.length; i++) {
            out[number[i]] = table[used[i]];
        }
        return out;
    }

    private static int[][] transposed(int[][] table) {
        int[][] out = new int[table.length == 0 ? 0 : table[0].length][table.length];
        for (int i = 0; i < table.length; i++) {
            for (int j = 0; j < out.length; j++) {
                out[j][i] = table[i][j];
            }
        }
        return out;
    }

    /** Numbers the names in the order of their code points; null is no name. */
    private static Map<String, Integer> numbered(Collection<String> names) {
        Map<String, Integer> number = new HashMap<>();
        new HashSet<>(names).stream().filter(Objects::nonNull).sorted(Racks::compareCodePoints)
            .forEach(name -> number.put(name, number.size()));
        return number;
    }

    private static int compareCodePoints(String a, String b) {
        return Arrays.compare(a.codePoints().toArray(), b.codePoints().toArray());
    }

    private static int compareMasks(BitSet a, BitSet b) {
        int most = Math.max(a.length(), b.length());
        for (int first = 0; first < most; first += CHUNK) {
            for (int i = Math.min(first + CHUNK, most) - 1; i >= first; i--) {
                if (a.get(i) != b.get(i)) {
                    return a.get(i) ? 1 : -1;
                }
            }
        }
        return 0;
    }
}
