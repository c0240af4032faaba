package io.partage.assignors.core;

import io.partage.assignors.core.FlowNetwork.Arcs;
import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;

/**
 * The cheapest flow of partitions to members with loads at least as even as given ones.
 *
 * <p>It is a transportation problem. Nodes are the source, classes of partitions, groups of members,
 * units, steps and the sink. A unit is one claimant, or all other members of a group. A class reaches
 * its claimants at the cost of keeping, and groups at the cost of moving.
 */
final class CheapestPlan {
    /** Partitions over each keep arc and each free arc. */
    final long[] kept;
    final long[] free;
    /** Partitions of its group that each place gets. */
    final long[] received;

    private final TransportArcs arcs;
    private final int[] unit;
    private final int[] unitSize;
    private final int[] unitGroup;

    /** Takes the flow of the best loads as it is, where nothing costs anything. */
    CheapestPlan(EvenLoads loads) {
        arcs = null;
        unit = null;
        unitSize = null;
        unitGroup = null;
        kept = new long[0];
        free = loads.share;
        received = loads.load;
    }

    CheapestPlan(TransportArcs arcs, PartitionClasses classes, long[] load, WorkBudget budget) {
        this.arcs = arcs;
        Staircase stairs = new Staircase(load);
        boolean[] claims = new boolean[classes.group.length];
        for (int m : arcs.keepMember) {
            claims[m] = true;
        }
        unit = new int[claims.length];
        Arrays.fill(unit, -1);
        IntList sizes = new IntList();
        IntList groupOf = new IntList();
        int[] others = new int[classes.groups];
        for (int m = 0; m < unit.length; m++) {
            int group = classes.group[m];
            if (group < 0) {
                continue;
            }
            if (claims[m]) {
                unit[m] = sizes.size;
                sizes.add(1);
                groupOf.add(group);
            } else {
                others[group]++;
            }
        }
        int[] number = new int[classes.groups];
        for (int g = 0; g < others.length; g++) {
            if (others[g] > 0) {
                number[g] = sizes.size;
                sizes.add(others[g]);
                groupOf.add(g);
            }
        }
        for (int m = 0; m < unit.length; m++) {
            if (classes.group[m] >= 0 && !claims[m]) {
                unit[m] = number[classes.group[m]];
            }
        }
        unitSize = sizes.toArray();
        unitGroup = groupOf.toArray();
        int keeps = arcs.keepClass.length;
        int frees = arcs.freeClass.length;
        int sources = arcs.supply.length;
        int units = unitSize.length;
        int steps = stairs.steps();
        long needed = (long) keeps + frees + sources + (long) units * (steps + 1) + steps;
        if (needed > FlowNetwork.LARGEST) {
            throw new WorkLimitException("the cheapest plan needs a network of " + needed
                + " arcs, the limit is " + FlowNetwork.LARGEST);
        }
        FlowNetwork network = network(classes, stairs, budget);
        pushKept(network, stairs);
        network.augment();
        while (hasSupply(network)) {
            if (!network.raisePrices()) {
                throw new IllegalStateException("no plan has loads as good as these");
            }
            network.augment();
        }
        kept = flows(network, sources, keeps);
        free = flows(network, sources + keeps, frees);
        received = shared(flows(network, sources + keeps + frees, units));
    }

    private boolean hasSupply(FlowNetwork network) {
        for (int c = 0; c < arcs.supply.length; c++) {
            if (network.room(c) > 0) {
                return true;
            }
        }
        return false;
    }

    private static long[] flows(FlowNetwork network, int first, int count) {
        long[] out = new long[count];
        for (int i = 0; i < count; i++) {
            out[i] = network.flow(first + i);
        }
        return out;
    }

    /** Builds the network; its arcs are supply, keep, free, within, climb and step, in this order. */
    private FlowNetwork network(PartitionClasses classes, Staircase stairs, WorkBudget budget) {
        int sources = arcs.supply.length;
        int firstUnit = sources + classes.groups;
        int firstStep = firstUnit + unitSize.length;
        int source = firstStep + stairs.steps();
        int sink = source + 1;
        long[] price = new long[sink + 1];
        // All supply must go, so that the cheapest way of each class may as well be free of cost.
        Arrays.fill(price, 0, sources, FlowNetwork.UNBOUNDED);
        for (int i = 0; i < arcs.freeClass.length; i++) {
            price[arcs.freeClass[i]] = Math.min(price[arcs.freeClass[i]], arcs.freeCost[i]);
        }
        for (int i = 0; i < arcs.keepClass.length; i++) {
            price[arcs.keepClass[i]] = Math.min(price[arcs.keepClass[i]], arcs.keepCost[i]);
        }
        Arcs all = new Arcs();
        for (int c = 0; c < sources; c++) {
            all.add(source, c, arcs.supply[c], -price[c]);
        }
        for (int i = 0; i < arcs.keepClass.length; i++) {
            all.add(arcs.keepClass[i], firstUnit + unit[arcs.keepMember[i]], arcs.keepMost[i], arcs.keepCost[i]);
        }
        for (int i = 0; i < arcs.freeClass.length; i++) {
            all.add(arcs.freeClass[i], sources + arcs.freeGroup[i], FlowNetwork.UNBOUNDED, arcs.freeCost[i]);
        }
        for (int u = 0; u < unitSize.length; u++) {
            all.add(sources + unitGroup[u], firstUnit + u, FlowNetwork.UNBOUNDED, 0);
        }
        for (int u = 0; u < unitSize.length; u++) {
            for (int j = 0; j < stairs.steps(); j++) {
                all.add(firstUnit + u, firstStep + j, unitSize[u] * stairs.width[j], 0);
            }
        }
        for (int j = 0; j < stairs.steps(); j++) {
            all.add(firstStep + j, sink, stairs.reaching[j] * stairs.width[j], 0);
        }
        return new FlowNetwork(sink + 1, all, source, sink, price, budget);
    }

    /** Pushes a first flow: partitions stay with claimants at least cost, within the load limits. */
    private void pushKept(FlowNetwork network, Staircase stairs) {
        int sources = arcs.supply.length;
        int keeps = arcs.keepClass.length;
        long[] most = new long[sources];
        for (int i = 0; i < keeps; i++) {
            most[arcs.keepClass[i]] += arcs.keepMost[i];
        }
        boolean[] good = new boolean[keeps];
        long[] wish = new long[unitSize.length];
        for (int i = 0; i < keeps; i++) {
            int of = arcs.keepClass[i];
            good[i] = arcs.keepCost[i] == network.price[of] && most[of] <= arcs.supply[of];
            if (good[i]) {
                wish[unit[arcs.keepMember[i]]] += arcs.keepMost[i];
            }
        }
        long[][] climbs = stairs.climb(wish);
        long[] room = new long[unitSize.length];
        int firstClimb = sources + keeps + arcs.freeClass.length + unitSize.length;
        int firstStep = firstClimb + unitSize.length * stairs.steps();
        for (int u = 0; u < room.length; u++) {
            for (int j = 0; j < stairs.steps(); j++) {
                room[u] += climbs[u][j];
                network.push(firstClimb + u * stairs.steps() + j, climbs[u][j]);
                network.push(firstStep + j, climbs[u][j]);
            }
        }
        for (int i = 0; i < keeps; i++) {
            if (good[i]) {
                int u = unit[arcs.keepMember[i]];
                long stays = Math.min(Math.max(room[u], 0), arcs.keepMost[i]);
                room[u] -= arcs.keepMost[i];
                network.push(arcs.keepClass[i], stays);
                network.push(sources + i, stays);
            }
        }
    }

    /** Divides the partitions of each unit evenly among its members, the first members first. */
    private long[] shared(long[] within) {
        long[] out = new long[unit.length];
        int[] met = new int[unitSize.length];
        for (int m = 0; m < out.length; m++) {
            int u = unit[m];
            if (u >= 0) {
                out[m] = within[u] / unitSize[u] + (met[u]++ < within[u] % unitSize[u] ? 1 : 0);
            }
        }
        return out;
    }
}
