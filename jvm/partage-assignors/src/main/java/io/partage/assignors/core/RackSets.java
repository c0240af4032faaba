package io.partage.assignors.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The racks of each row's replicas; rows with equal racks share one set. */
public final class RackSets {
    /** The distinct sets, by first occurrence. */
    final List<Set<String>> sets = new ArrayList<>();
    /** Number of each row's set. */
    final int[] setOf;

    private final Map<Set<String>, Integer> number = new HashMap<>();

    /** Makes the sets of so many rows, all of them empty. */
    public RackSets(int rows) {
        sets.add(Set.of());
        number.put(Set.of(), 0);
        setOf = new int[rows];
    }

    /** Returns whether no row has a replica with a known rack. */
    public boolean isEmpty() {
        return sets.size() == 1;
    }

    /** Stores the racks of a row's replicas. */
    public void put(int row, Set<String> racks) {
        if (racks.isEmpty()) {
            return;
        }
        Integer known = number.get(racks);
        if (known == null) {
            known = sets.size();
            Set<String> copy = Set.copyOf(racks);
            number.put(copy, known);
            sets.add(copy);
        }
        setOf[row] = known;
    }
}
