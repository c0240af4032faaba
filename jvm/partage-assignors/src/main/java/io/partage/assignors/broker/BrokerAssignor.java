package io.partage.assignors.broker;

import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An assignor of the group coordinator that never fails: where its own rule has no plan, it logs the
 * reason and uses Kafka's uniform assignor.
 */
abstract class BrokerAssignor implements ConsumerGroupPartitionAssignor {
    private static final String UNIFORM = "org.apache.kafka.coordinator.group.assignor.UniformAssignor";

    private final Logger log = LoggerFactory.getLogger(getClass());

    /** Returns the place of each row's owner. */
    abstract int[] owners(BrokerGroup group);

    @Override
    public final GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
        try {
            BrokerGroup group = new BrokerGroup(spec, describer);
            return group.assignment(owners(group));
        } catch (RuntimeException | StackOverflowError e) {
            log.warn("{} cannot plan this group of {} members: {}. {} assigns it.",
                name(), spec.memberIds().size(), e, UNIFORM);
        }
        try {
            return uniform().assign(spec, describer);
        } catch (ReflectiveOperationException | RuntimeException e) {
            log.error("{} cannot plan this group of {} members either: {}. Partitions go to the least "
                + "loaded members.", UNIFORM, spec.memberIds().size(), e.toString());
        }
        BrokerGroup group = new BrokerGroup(spec, describer);
        return group.assignment(FairAssignor.fairOwners(group));
    }

    /** Makes Kafka's own assignor, which is on every broker's class path but not in its public API. */
    private static ConsumerGroupPartitionAssignor uniform() throws ReflectiveOperationException {
        return Class.forName(UNIFORM).asSubclass(ConsumerGroupPartitionAssignor.class)
            .getDeclaredConstructor().newInstance();
    }
}
