package io.partage.assignors.broker;

import io.partage.assignors.core.MemberOrder;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;

/** A member as the coordinator describes it. */
final class BrokerMember extends MemberOrder {
    final MemberSubscription subscription;
    /** The previous target, empty for a new member. */
    final MemberAssignment previous;

    private BrokerMember(String id, MemberSubscription subscription, MemberAssignment previous) {
        super(id, subscription.instanceId().orElse(null));
        this.subscription = subscription;
        this.previous = previous;
    }

    /** Returns the members of a group in canonical order. */
    static BrokerMember[] sorted(GroupSpec spec) {
        BrokerMember[] members = new BrokerMember[spec.memberIds().size()];
        int size = 0;
        for (String id : spec.memberIds()) {
            members[size++] = new BrokerMember(id, spec.memberSubscription(id), spec.memberAssignment(id));
        }
        sort(members);
        return members;
    }
}
