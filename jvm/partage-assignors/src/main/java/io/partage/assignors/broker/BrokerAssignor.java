package io.partage.assignors.broker;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An assignor of the group coordinator that never fails: where its own rule has no plan, it logs the
 * reason and uses Kafka's uniform assignor.
 */
abstract class BrokerAssignor implements ConsumerGroupPartitionAssignor {
    private static final String UNIFORM = "org.apache.kafka.coordinator.group.assignor.UniformAssignor";
    /** Most partitions of a group that is planned: no cluster has so many, and their arrays fit the heap. */
    private static final long MOST_PARTITIONS = 1L << 24;

    private final Logger log = LoggerFactory.getLogger(getClass());

    /** Returns the new targets of all members. */
    abstract GroupAssignment plan(BrokerGroup group);

    @Override
    public final GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
        try {
            BrokerGroup group = new BrokerGroup(spec, describer);
            if (group.partitions > MOST_PARTITIONS) {
                log.error("The metadata have {} partitions for this group of {} members, the limit is {}. The "
                    + "members keep their partitions.", group.partitions, group.members.length, MOST_PARTITIONS);
                return previous(spec);
            }
            return plan(group);
        } catch (RuntimeException | StackOverflowError | OutOfMemoryError e) {
            log.warn("{} cannot plan this group of {} members: {}. {} assigns it.",
                name(), spec.memberIds().size(), e.toString(), UNIFORM);
        }
        try {
            return uniform().assign(spec, describer);
        } catch (ReflectiveOperationException | RuntimeException | OutOfMemoryError e) {
            log.error("{} cannot plan this group of {} members either: {}. Partitions go to the least "
                + "loaded members.", UNIFORM, spec.memberIds().size(), e.toString());
        }
        try {
            BrokerGroup group = new BrokerGroup(spec, describer);
            return group.assignment(FairAssignor.fairOwners(group));
        } catch (RuntimeException | OutOfMemoryError e) {
            log.error("The group of {} members cannot be planned at all: {}. The members keep their partitions.",
                spec.memberIds().size(), e.toString());
        }
        return previous(spec);
    }

    /** Makes Kafka's own assignor, which is on every broker's class path but not in its public API. */
    private static ConsumerGroupPartitionAssignor uniform() throws ReflectiveOperationException {
        return Class.forName(UNIFORM).asSubclass(ConsumerGroupPartitionAssignor.class)
            .getDeclaredConstructor().newInstance();
    }

    /** Returns the previous targets of all members, unchanged. */
    private static GroupAssignment previous(GroupSpec spec) {
        Map<String, MemberAssignment> targets = new HashMap<>();
        for (String id : spec.memberIds()) {
            targets.put(id, spec.memberAssignment(id));
        }
        return new GroupAssignment(targets);
    }
}
