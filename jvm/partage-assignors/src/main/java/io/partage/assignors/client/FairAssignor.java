package io.partage.assignors.client;

import io.partage.assignors.core.FairPlan;
import io.partage.assignors.core.Ints;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;

/**
 * KIP-49's fair assignor in a Java consumer: the most constrained topics first, each partition to the
 * least loaded subscriber. It is byte-compatible with Python members of Partage's {@code fair}.
 */
public final class FairAssignor implements ConsumerPartitionAssignor {
    public static final String NAME = "fair";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
        ClientGroup group = new ClientGroup(metadata, groupSubscription.groupSubscription());
        int[] owner = FairPlan.owners(group.counts, group.subscription, group.topicsOf);
        int[] topics = FairPlan.topicOrder(group.counts, group.subscription, group.topicsOf);
        return group.assignment(Ints.rowsOf(topics, group.firstRow), owner, any -> null);
    }
}
