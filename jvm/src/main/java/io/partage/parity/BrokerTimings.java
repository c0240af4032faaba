package io.partage.parity;

import io.partage.assignors.broker.OptimalAssignor;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * CPU time of the jar's optimal assignor beside Kafka's uniform assignor, on the grid of Kafka's
 * ServerSideAssignorBenchmark and with its containers.
 *
 * <p>Arguments: {@code returned} (previous targets are the objects that the assignor returned, as in
 * Kafka's benchmark) or {@code replayed} (sets as the coordinator makes them from its log), the seconds
 * of CPU time for each measurement, then perhaps the numbers of members, the racks, the numbers of topics
 * and the types of subscriptions to measure.
 * Racks are {@code none}, {@code members} (only members have racks, as in Kafka's benchmark) or
 * {@code brokers} (each partition has replicas on two of four brokers with three racks; not in Kafka's
 * benchmark). One line is printed for each cell: milliseconds of the best and the median round, and
 * the ratios of both.
 *
 * <p>With {@code reading} as the first argument, the optimal assignor makes no plan in the measured rounds. Its
 * columns then have what any assignor with its input must do at least: read the racks of all partitions
 * (column best), and the previous targets (column median; {@link InputReader}). The two measurements are separate,
 * because a reader that calls the same methods makes the compiled code of the assignor slower.
 */
public final class BrokerTimings {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int BUCKETS = 5;
    private static final int BROKERS = 4;
    private static final int RACKS = 3;
    private static final int LEAST_ROUNDS = 5;

    private final int members;
    private final int topics;
    private final boolean haveRacks;
    private final boolean isReplayed;
    private final boolean isReading;
    private final double seconds;
    private final TopicIds.TopicResolver resolver;
    private final SubscribedTopicDescriberImpl describer;

    private BrokerTimings(int members, int ratio, int topics, String racks, String mode, double seconds) {
        this.members = members;
        this.topics = topics;
        isReplayed = mode.equals("replayed");
        isReading = mode.equals("reading");
        this.seconds = seconds;
        haveRacks = !racks.equals("none");
        CoordinatorMetadataImage image = image(topics, members * ratio / topics, racks.equals("brokers"));
        resolver = new TopicIds.CachedTopicResolver(image);
        describer = new SubscribedTopicDescriberImpl(image);
    }

    public static void main(String[] args) {
        double seconds = Double.parseDouble(args[1]);
        String[] counts = (args.length > 2 ? args[2] : "100,500,1000,5000,10000").split(",");
        String[] racks = (args.length > 3 ? args[3] : "none,members").split(",");
        String[] topicCounts = (args.length > 4 ? args[4] : "10,100,1000").split(",");
        String[] types = (args.length > 5 ? args[5] : "HOMOGENEOUS,HETEROGENEOUS").split(",");
        System.out.println("members,ratio,topics,racks,subscriptions,assignment,"
            + "uniform best,uniform median,optimal best,optimal median,ratio of best,ratio of medians");
        double most = 0;
        int cells = 0;
        int slow = 0;
        for (String count : counts) {
            for (int ratio : new int[] {5, 10, 50}) {
                for (String topics : topicCounts) {
                    for (String rack : racks) {
                        BrokerTimings made = new BrokerTimings(
                            Integer.parseInt(count), ratio, Integer.parseInt(topics), rack, args[0], seconds);
                        for (String type : types) {
                            for (boolean isIncremental : new boolean[] {false, true}) {
                                double found = made.print(ratio, rack, SubscriptionType.valueOf(type), isIncremental);
                                most = Math.max(most, found);
                                cells++;
                                slow += found > 2 ? 1 : 0;
                            }
                        }
                    }
                }
            }
        }
        System.out.printf("%d cells, %d with a ratio of best rounds above 2, the largest is %.2f%n", cells, slow, most);
    }

    /** Measures both assignors, prints the cell's line and returns the ratio of their best rounds. */
    private double print(int ratio, String racks, SubscriptionType type, boolean isIncremental) {
        double[] uniform = measured(new UniformAssignor(), type, isIncremental);
        double[] optimal = isReading
            ? new double[] {
                measured(new InputReader(true), type, isIncremental)[0],
                measured(new InputReader(false), type, isIncremental)[0]}
            : measured(new OptimalAssignor(), type, isIncremental);
        System.out.printf("%d,%d,%d,%s,%s,%s,%.3f,%.3f,%.3f,%.3f,%.2f,%.2f%n", members, ratio, topics, racks,
            type.name().toLowerCase(Locale.ROOT), isIncremental ? "incremental" : "full",
            uniform[0], uniform[1], optimal[0], optimal[1], optimal[0] / uniform[0], optimal[1] / uniform[1]);
        return optimal[0] / uniform[0];
    }

    /** Returns the milliseconds of the best and of the median round, after as long a warm-up. */
    private double[] measured(ConsumerGroupPartitionAssignor assignor, SubscriptionType type, boolean isIncremental) {
        GroupSpec group = group(type, isIncremental ? members - 1 : members, Map.of(), false);
        if (isIncremental) {
            ConsumerGroupPartitionAssignor first = assignor instanceof InputReader ? new OptimalAssignor() : assignor;
            group = group(type, members - 1, first.assign(group, describer).members(), true);
        }
        rounds(assignor, group);
        long[] nanos = rounds(assignor, group);
        Arrays.sort(nanos);
        return new double[] {nanos[0] / 1e6, nanos[nanos.length / 2] / 1e6};
    }

    private long[] rounds(ConsumerGroupPartitionAssignor assignor, GroupSpec group) {
        long[] nanos = new long[LEAST_ROUNDS];
        int count = 0;
        for (double all = 0; count < LEAST_ROUNDS || all < seconds * 1e9; count++) {
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * count);
            }
            long before = THREADS.getCurrentThreadCpuTime();
            resolver.clear();
            assignor.assign(group, describer);
            nanos[count] = THREADS.getCurrentThreadCpuTime() - before;
            all += nanos[count];
        }
        return Arrays.copyOf(nanos, count);
    }

    /** Returns the group with these targets; perhaps a new member joins with the last one's subscription. */
    private GroupSpec group(
            SubscriptionType type, int count, Map<String, MemberAssignment> targets, boolean oneJoins) {
        CoordinatorGroup group = new CoordinatorGroup(resolver);
        Set<String> subscribed = Set.of();
        int buckets = type == SubscriptionType.HOMOGENEOUS ? 1 : Math.min(BUCKETS, count);
        int ofMembers = (count + buckets - 1) / buckets;
        int ofTopics = (topics + buckets - 1) / buckets;
        for (int m = 0; m < count; m++) {
            if (m % ofMembers == 0) {
                subscribed = new HashSet<>();
                int first = m / ofMembers * ofTopics;
                for (int t = first; t < Math.min(first + ofTopics, topics); t++) {
                    subscribed.add("topic-" + t);
                }
            }
            String id = "member" + m;
            group.add(id, rack(m), Optional.empty(), subscribed, target(targets.get(id)));
        }
        if (oneJoins) {
            group.add("newMember", rack(count), Optional.empty(), subscribed, Map.of());
        }
        return group.spec(type, Optional.empty());
    }

    private Map<Uuid, Set<Integer>> target(MemberAssignment returned) {
        if (returned == null || !isReplayed) {
            return returned == null ? Map.of() : returned.partitions();
        }
        Map<Uuid, Set<Integer>> target = new HashMap<>();
        returned.partitions().forEach((topic, numbers) -> target.put(topic, new HashSet<>(numbers)));
        return target;
    }

    private Optional<String> rack(int member) {
        return haveRacks ? Optional.of("rack" + member % RACKS) : Optional.empty();
    }

    /** Returns metadata in which each partition has replicas on two brokers, which may be registered. */
    private static CoordinatorMetadataImage image(int topics, int partitions, boolean hasBrokers) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker = 0; broker < BROKERS && hasBrokers; broker++) {
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack("rack" + broker % RACKS)
                .setIncarnationId(new Uuid(broker, 1)).setLogDirs(List.of(new Uuid(broker, 2))));
        }
        for (int t = 0; t < topics; t++) {
            Uuid id = new Uuid(t * 0x9E3779B97F4A7C15L, t);
            delta.replay(new TopicRecord().setTopicId(id).setName("topic-" + t));
            for (int p = 0; p < partitions; p++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(p)
                    .setReplicas(Arrays.asList(p % BROKERS, (p + 1) % BROKERS)));
            }
        }
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }

    /** Reads one part of an assignor's input through Kafka's interfaces and assigns nothing. */
    private static final class InputReader implements ConsumerGroupPartitionAssignor {
        private final boolean readsRacks;
        /** Keeps the compiler from removing the calls. */
        private long sum;

        InputReader(boolean readsRacks) {
            this.readsRacks = readsRacks;
        }

        @Override
        public String name() {
            return "reader";
        }

        @Override
        public GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
            boolean isHomogeneous = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
            Set<Uuid> topics = new HashSet<>();
            for (String member : spec.memberIds()) {
                if (topics.isEmpty() || !isHomogeneous) {
                    topics.addAll(spec.memberSubscription(member).subscribedTopicIds());
                }
                if (!readsRacks) {
                    spec.memberAssignment(member).partitions().forEach((topic, numbers) -> sum += numbers.size());
                }
            }
            for (Uuid topic : topics) {
                int count = describer.numPartitions(topic);
                for (int partition = 0; partition < count; partition++) {
                    sum += readsRacks
                        ? describer.racksForPartition(topic, partition).size()
                        : spec.isPartitionAssigned(topic, partition) ? 1 : 0;
                }
            }
            return new GroupAssignment(Map.of());
        }
    }
}
