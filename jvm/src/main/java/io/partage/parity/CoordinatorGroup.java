package io.partage.parity;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/** A group and its topics in the containers that the group coordinator itself passes to an assignor. */
final class CoordinatorGroup {
    /** The metadata: ids by name, counts and racks by id. A count of -1 or none means that it is not known. */
    static final class Topics implements SubscribedTopicDescriber, TopicIds.TopicResolver {
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();
        private final Map<Uuid, Integer> counts = new HashMap<>();
        private final Map<Uuid, IntFunction<Set<String>>> racks = new HashMap<>();
        private final boolean areBroken;

        Topics() {
            this(false);
        }

        /** Makes the metadata; broken ones know no partition counts and throw instead. */
        Topics(boolean areBroken) {
            this.areBroken = areBroken;
        }

        void add(Uuid id, int count, IntFunction<Set<String>> racksOfPartition) {
            counts.put(id, count);
            racks.put(id, racksOfPartition);
        }

        /** Names a topic; a topic without a name cannot be subscribed to. */
        void name(Uuid id, String name) {
            ids.put(name, id);
            names.put(id, name);
        }

        @Override
        public CoordinatorMetadataImage image() {
            throw new UnsupportedOperationException();
        }

        @Override
        public String name(Uuid id) {
            return names.get(id);
        }

        @Override
        public Uuid id(String name) {
            return ids.get(name);
        }

        @Override
        public void clear() {
        }

        @Override
        public int numPartitions(Uuid id) {
            if (areBroken) {
                throw new IllegalStateException("the metadata are broken");
            }
            return counts.getOrDefault(id, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid id, int partition) {
            return racks.get(id).apply(partition);
        }
    }

    private final TopicIds.TopicResolver topics;
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();

    CoordinatorGroup(TopicIds.TopicResolver topics) {
        this.topics = topics;
    }

    /** Adds a member; of two members whose targets have a partition, the later one is its owner. */
    void add(String id, Optional<String> rack, Optional<String> instance, Set<String> subscribed,
             Map<Uuid, Set<Integer>> target) {
        target.forEach((topic, numbers) -> {
            Map<Integer, String> of = owners.computeIfAbsent(topic, any -> new HashMap<>());
            numbers.forEach(number -> of.put(number, id));
        });
        members.put(id, new MemberSubscriptionAndAssignmentImpl(
            rack, instance, new TopicIds(subscribed, topics), new Assignment(Collections.unmodifiableMap(target))));
    }

    /** Returns the request of an assignment; {@code assignable} limits it to some partitions. */
    GroupSpec spec(SubscriptionType type, Optional<Map<Uuid, Set<Integer>>> assignable) {
        return new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners, assignable);
    }
}
