package io.partage.parity;

import io.partage.assignors.broker.OptimalAssignor;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * CPU time of the jar's optimal assignor beside Kafka's uniform assignor, on the shapes of Kafka's own
 * ServerSideAssignorBenchmark.
 *
 * <p>Arguments: members, topics, partitions for each member, {@code same} or {@code buckets} (five kinds
 * of subscriptions), {@code racks} or {@code plain}, rounds. Prints one JSON line with the milliseconds
 * of the best round: a first assignment, and one after a member has joined.
 */
public final class BrokerTimings {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int BUCKETS = 5;

    private final CoordinatorGroup.Topics topics = new CoordinatorGroup.Topics();
    private final boolean racks;

    private BrokerTimings(int count, int partitions, boolean racks) {
        this.racks = racks;
        for (int t = 0; t < count; t++) {
            Uuid id = new Uuid(t * 0x9E3779B97F4A7C15L, t);
            topics.add(id, partitions, number -> Set.of("rack" + (id.getLeastSignificantBits() + number) % 3));
            topics.name(id, "topic" + t);
        }
    }

    public static void main(String[] args) {
        int members = Integer.parseInt(args[0]);
        int topics = Integer.parseInt(args[1]);
        int each = Math.max(1, members * Integer.parseInt(args[2]) / topics);
        int buckets = args[3].equals("same") ? 1 : BUCKETS;
        BrokerTimings made = new BrokerTimings(topics, each, args[4].equals("racks"));
        int rounds = Integer.parseInt(args[5]);
        System.out.printf("{\"members\": %d, \"topics\": %d, \"partitions\": %d, \"shape\": \"%s %s\"", members, topics,
            topics * each, args[3], args[4]);
        for (ConsumerGroupPartitionAssignor one : new ConsumerGroupPartitionAssignor[] {
            new UniformAssignor(), new OptimalAssignor()}) {
            GroupSpec first = made.group(members, topics, buckets, Map.of());
            System.out.printf(", \"%s first\": %.2f", one.name(), made.best(one, first, rounds));
            Map<String, MemberAssignment> assigned = one.assign(first, made.topics).members();
            GroupSpec next = made.group(members + 1, topics, buckets, assigned);
            System.out.printf(", \"%s joins\": %.2f", one.name(), made.best(one, next, rounds));
        }
        System.out.println("}");
    }

    private double best(ConsumerGroupPartitionAssignor assignor, GroupSpec group, int rounds) {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < rounds; round++) {
            long before = THREADS.getCurrentThreadCpuTime();
            assignor.assign(group, topics);
            best = Math.min(best, THREADS.getCurrentThreadCpuTime() - before);
        }
        return best / 1e6;
    }

    private GroupSpec group(int members, int count, int buckets, Map<String, MemberAssignment> assigned) {
        CoordinatorGroup group = new CoordinatorGroup(topics);
        for (int m = 0; m < members; m++) {
            String id = "member" + m;
            Set<String> subscribed = new HashSet<>();
            for (int t = m % buckets; t < count; t += buckets) {
                subscribed.add("topic" + t);
            }
            // Hash sets, as the coordinator makes when it replays its own records.
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            if (assigned.containsKey(id)) {
                assigned.get(id).partitions().forEach((topic, numbers) -> target.put(topic, new HashSet<>(numbers)));
            }
            group.add(id, racks ? Optional.of("rack" + m % 3) : Optional.empty(), Optional.empty(), subscribed, target);
        }
        SubscriptionType type = buckets == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return group.spec(type, Optional.empty());
    }
}
