package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * How long Kafka's assignors take on a problem of benchmarks/peers (its README has the form).
 *
 * <p>Arguments: the problem, where to write the plan, fewest and most runs, seconds after which
 * no more than the fewest are made, seconds after which not even these. Prints one JSON line: nanos
 * of each run, the CPU time of its thread (no garbage collection, no compiler in it), and how many
 * partitions were given. What a member sends is made anew for each run, outside the clock, and so
 * is the garbage of a run of more than some milliseconds collected.
 */
public final class Timings {
    private final JsonNode problem;
    private final List<String> names = new ArrayList<>();
    private final List<Uuid> ids = new ArrayList<>();
    private final List<Integer> counts = new ArrayList<>();
    private final List<String> members = new ArrayList<>();
    private final boolean separate;

    private Timings(JsonNode problem) {
        this.problem = problem;
        this.separate = problem.path("separate").asBoolean();
        for (JsonNode topic : problem.get("topics")) {
            names.add(topic.get(0).asText());
            counts.add(topic.get(1).asInt());
            ids.add(Uuid.fromString(topic.get(2).asText()));
        }
        problem.get("members").forEach(member -> members.add(member.get("id").asText()));
    }

    public static void main(String[] args) throws IOException {
        Timings one = new Timings(JsonLines.JSON.readTree(new File(args[0])));
        String strategy = one.problem.get("strategy").asText();
        boolean server = strategy.startsWith("server:");
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        int[] plan = server
            ? one.server(strategy, new Clock(answer, args))
            : one.client(strategy, new Clock(answer, args));
        ByteBuffer bytes = ByteBuffer.allocate(4 * plan.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(plan);
        Files.write(Path.of(args[1]), bytes.array());
        answer.put("given", one.given);
        answer.put("peak", peak());
        answer.put("version", "java " + System.getProperty("java.version"));
        System.out.println(answer);
    }

    /** KiB of memory at most resident so far; null where there is no /proc. */
    private static Long peak() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM")) {
                    return Long.parseLong(line.replaceAll("\\D", ""));
                }
            }
        } catch (IOException none) {
            return null;
        }
        return null;
    }

    private int given;

    /** Runs again and again, and notes how long each run took. */
    private static final class Clock {
        private static final long WORTH_COLLECTING = 5_000_000;
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private final ArrayNode nanos;
        private final ArrayNode cpu;
        private final int fewest;
        private final int most;
        private final long enough;
        private final long atMost;

        Clock(ObjectNode answer, String[] args) {
            this.nanos = answer.putArray("nanos");
            this.cpu = answer.putArray("cpu_nanos");
            this.fewest = Integer.parseInt(args[2]);
            this.most = Integer.parseInt(args[3]);
            this.enough = (long) (Double.parseDouble(args[4]) * 1e9);
            this.atMost = (long) (Double.parseDouble(args[5]) * 1e9);
        }

        <I, O> O timed(Supplier<I> made, java.util.function.Function<I, O> work) {
            long begin = System.nanoTime();
            O out = null;
            long last = 0;
            for (int run = 0; run < most && System.nanoTime() - begin < (run < fewest ? atMost : enough); run++) {
                I input = made.get();
                out = null;
                if (last > WORTH_COLLECTING) {
                    System.gc();
                }
                long before = THREADS.getCurrentThreadCpuTime();
                long start = System.nanoTime();
                out = work.apply(input);
                last = System.nanoTime() - start;
                cpu.add(THREADS.getCurrentThreadCpuTime() - before);
                nanos.add(last);
            }
            return out;
        }
    }

    private Map<String, Integer> firstOf() {
        Map<String, Integer> first = new HashMap<>();
        int at = 0;
        for (int t = 0; t < names.size(); t++) {
            first.put(names.get(t), at);
            at += counts.get(t);
        }
        first.put(null, at);
        return first;
    }

    private int[] client(String strategy, Clock clock) {
        ConsumerPartitionAssignor assignor = switch (strategy) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
        Cluster cluster = cluster();
        var assigned = clock.timed(
            () -> new GroupSubscription(subscriptions()),
            group -> assignor.assign(cluster, group)).groupAssignment();
        Map<String, Integer> first = firstOf();
        int[] owner = new int[first.get(null)];
        Arrays.fill(owner, -1);
        for (int m = 0; m < members.size(); m++) {
            for (TopicPartition one : assigned.get(members.get(m)).partitions()) {
                owner[first.get(one.topic()) + one.partition()] = m;
                given++;
            }
        }
        return owner;
    }

    /** Names of each subscription; with separate ones each member gets strings of its own. */
    private List<String> topics(JsonNode member, Map<Integer, List<String>> shared) {
        int which = member.get("subscription").asInt();
        if (separate) {
            return names(which, true);
        }
        return shared.computeIfAbsent(which, any -> names(which, false));
    }

    private List<String> names(int which, boolean own) {
        List<String> out = new ArrayList<>();
        for (JsonNode topic : problem.get("subscriptions").get(which)) {
            String name = names.get(topic.asInt());
            out.add(own ? new String(name.toCharArray()) : name);
        }
        return out;
    }

    private Map<String, Subscription> subscriptions() {
        Map<String, Subscription> out = new HashMap<>();
        Map<Integer, List<String>> shared = new HashMap<>();
        for (JsonNode member : problem.get("members")) {
            List<TopicPartition> owned = new ArrayList<>();
            ByteBuffer data = null;
            if (member.has("user_data")) {
                data = ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText()));
            } else {
                JsonNode flat = member.path("owned");
                for (int i = 0; i < flat.size(); i += 2) {
                    owned.add(new TopicPartition(names.get(flat.get(i).asInt()), flat.get(i + 1).asInt()));
                }
            }
            out.put(member.get("id").asText(), new Subscription(topics(member, shared), data, owned,
                member.path("generation").asInt(-1), Optional.ofNullable(member.path("rack").textValue())));
        }
        return out;
    }

    /** Replicas of partition p are on racks p, p + 1, ... of {@code racks}; without racks on one broker. */
    private Cluster cluster() {
        int racks = problem.path("racks").asInt(0);
        int copies = racks == 0 ? 1 : problem.get("copies").asInt();
        List<Node> nodes = new ArrayList<>();
        for (int i = 0; i < Math.max(racks, 1); i++) {
            nodes.add(new Node(i, "broker-" + i, 9092, racks == 0 ? null : "rack" + i));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int t = 0; t < names.size(); t++) {
            for (int p = 0; p < counts.get(t); p++) {
                Node[] replicas = new Node[copies];
                for (int j = 0; j < copies; j++) {
                    replicas[j] = nodes.get((p + j) % nodes.size());
                }
                partitions.add(new PartitionInfo(names.get(t), p, replicas[0], replicas, replicas));
            }
        }
        return new Cluster("timings", nodes, partitions, Set.of(), Set.of());
    }

    private int[] server(String strategy, Clock clock) {
        PartitionAssignor assignor = switch (strategy) {
            case "server:range" -> new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
            case "server:uniform" -> new UniformAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
        CoordinatorGroup.Topics topics = coordinatorTopics();
        GroupAssignment assigned =
            clock.timed(() -> group(topics), group -> assignor.assign(group, topics));
        Map<String, Integer> first = firstOf();
        int[] owner = new int[first.get(null)];
        Arrays.fill(owner, -1);
        for (int m = 0; m < members.size(); m++) {
            int member = m;
            assigned.members().get(members.get(m)).partitions().forEach((id, numbers) -> {
                for (int p : numbers) {
                    owner[first.get(topics.name(id)) + p] = member;
                    given++;
                }
            });
        }
        return owner;
    }

    private GroupSpec group(CoordinatorGroup.Topics topics) {
        CoordinatorGroup group = new CoordinatorGroup(topics);
        Map<Integer, Set<String>> shared = new HashMap<>();
        for (JsonNode member : problem.get("members")) {
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            JsonNode flat = member.path("owned");
            for (int i = 0; i < flat.size(); i += 2) {
                Uuid topic = ids.get(flat.get(i).asInt());
                // As the coordinator reads its records: put appends to a bucket, computeIfAbsent
                // inserts at its head, and the assignor walks the buckets.
                target.putIfAbsent(topic, new HashSet<>());
                target.get(topic).add(flat.get(i + 1).asInt());
            }
            int which = member.get("subscription").asInt();
            Set<String> mine = separate
                ? new HashSet<>(names(which, true))
                : shared.computeIfAbsent(which, any -> new HashSet<>(names(which, false)));
            group.add(member.get("id").asText(), Optional.empty(), Optional.empty(), mine, target);
        }
        SubscriptionType type = problem.get("subscriptions").size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return group.spec(type, Optional.empty());
    }

    private CoordinatorGroup.Topics coordinatorTopics() {
        CoordinatorGroup.Topics topics = new CoordinatorGroup.Topics();
        for (int t = 0; t < names.size(); t++) {
            topics.add(ids.get(t), counts.get(t), partition -> Set.of());
            topics.name(ids.get(t), names.get(t));
        }
        return topics;
    }
}
