package io.partage.assignors.broker;

import io.partage.assignors.core.FairPlan;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * KIP-49's fair assignor in the group coordinator: the most constrained topics first, each partition to
 * the least loaded subscriber.
 *
 * <p>Previous owners do not count. Topics that tie are sorted by topic id.
 */
public final class FairAssignor extends BrokerAssignor {
    public static final String NAME = "partage-fair";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    GroupAssignment plan(BrokerGroup group) {
        return group.assignment(fairOwners(group));
    }

    static int[] fairOwners(BrokerGroup group) {
        return FairPlan.owners(group.counts, group.subscription, group.topicsOf);
    }
}
