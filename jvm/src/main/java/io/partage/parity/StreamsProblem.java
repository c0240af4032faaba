package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.InternalTopicManager;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/** A problem of tests/data/vectors/streams in Kafka Streams' own classes, in the containers of its leader. */
final class StreamsProblem {
    private static final StreamsConfig CONFIG = new StreamsConfig(Map.of(
        StreamsConfig.APPLICATION_ID_CONFIG, "parity", StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1"));

    final JsonNode given;
    final Set<TaskId> all;
    final Set<TaskId> stateful;
    final AssignmentConfigs configs;
    final Map<TopicPartition, Set<Node>> replicas = new HashMap<>();
    final Map<TaskId, Set<TopicPartition>> sources = new HashMap<>();
    final Map<TaskId, Set<TopicPartition>> changelogs = new HashMap<>();
    private final Map<String, Node> brokers = new LinkedHashMap<>();

    StreamsProblem(JsonNode given) {
        this.given = given;
        this.all = tasks(given.get("all"), new HashSet<>());
        this.stateful = tasks(given.get("stateful"), new HashSet<>());
        this.configs = configs(given.get("cfg"));
        for (TaskId task : all) {
            JsonNode racks = given.path("pr").path(task.toString());
            sources.put(task, partitions("source", task, racks.path(0)));
            if (stateful.contains(task)) {
                changelogs.put(task, partitions("changelog", task, racks.path(1)));
            }
        }
    }

    static <S extends Set<TaskId>> S tasks(JsonNode names, S into) {
        names.forEach(name -> into.add(TaskId.parse(name.asText())));
        return into;
    }

    static ProcessId process(JsonNode client) {
        return new ProcessId(new UUID(client.get("msb").asLong(), client.get("lsb").asLong()));
    }

    static Optional<String> rack(JsonNode client) {
        String rack = client.path("rack").asText("");
        return rack.isEmpty() || client.get("rack").isNull() ? Optional.empty() : Optional.of(rack);
    }

    static Map<String, String> tags(JsonNode client) {
        Map<String, String> tags = new LinkedHashMap<>();
        client.path("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
        return tags;
    }

    /** Clients as the leader's map has them: put in the order given. */
    Map<ProcessId, ClientState> clients() {
        Map<ProcessId, ClientState> clients = new HashMap<>();
        for (JsonNode client : given.get("clients")) {
            Map<TaskId, Long> lags = new HashMap<>();
            client.path("lag").properties().forEach(
                lag -> lags.put(TaskId.parse(lag.getKey()), lag.getValue().asLong()));
            clients.put(process(client), new ClientState(
                tasks(client.get("pa"), new HashSet<>()), tasks(client.get("ps"), new HashSet<>()),
                lags, tags(client), client.get("cap").asInt(), process(client)));
        }
        return clients;
    }

    RackAwareTaskAssignor racks() {
        Map<ProcessId, Map<String, Optional<String>>> consumers = new HashMap<>();
        given.get("clients").forEach(
            client -> consumers.put(process(client), Map.of("consumer", rack(client))));
        Map<Subtopology, Set<TaskId>> groups = new HashMap<>();
        all.forEach(task -> groups.computeIfAbsent(
            new Subtopology(task.subtopology(), task.topologyName()), any -> new HashSet<>()).add(task));
        List<PartitionInfo> partitions = new ArrayList<>();
        sources.values().forEach(some -> some.forEach(one -> {
            Node[] nodes = replicas.get(one).toArray(new Node[0]);
            partitions.add(new PartitionInfo(one.topic(), one.partition(), null, nodes, nodes));
        }));
        Cluster cluster = new Cluster("parity", brokers.values(), partitions, Set.of(), Set.of());
        return new RackAwareTaskAssignor(
            cluster, sources, changelogs, groups, consumers, new Topics(), configs, Time.SYSTEM);
    }

    /** Answers what a broker would: the replicas of every topic asked for, none where none are known. */
    private final class Topics extends InternalTopicManager {
        Topics() {
            super(Time.SYSTEM, (Admin) null, CONFIG);
        }

        @Override
        public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(Set<String> topics) {
            Map<String, List<TopicPartitionInfo>> answer = new HashMap<>();
            replicas.forEach((one, nodes) -> {
                if (topics.contains(one.topic())) {
                    List<Node> list = new ArrayList<>(nodes);
                    answer.computeIfAbsent(one.topic(), any -> new ArrayList<>()).add(
                        new TopicPartitionInfo(one.partition(), null, list, list));
                }
            });
            return answer;
        }
    }

    private Set<TopicPartition> partitions(String what, TaskId task, JsonNode racks) {
        Set<TopicPartition> partitions = new HashSet<>();
        int number = 0;
        for (JsonNode its : racks) {
            TopicPartition partition = new TopicPartition(what + number + "-" + task, task.partition());
            Set<Node> nodes = new LinkedHashSet<>();
            its.forEach(rack -> nodes.add(broker(rack)));
            replicas.put(partition, nodes);
            partitions.add(partition);
            number++;
        }
        return partitions;
    }

    /** One broker for each rack; null is a broker without rack. */
    private Node broker(JsonNode rack) {
        String name = rack.isNull() ? null : rack.asText();
        return brokers.computeIfAbsent(
            String.valueOf(name), any -> new Node(brokers.size(), "host", 1, name));
    }

    private static AssignmentConfigs configs(JsonNode cfg) {
        List<String> tags = new ArrayList<>();
        cfg.get("tags").forEach(tag -> tags.add(tag.asText()));
        return new AssignmentConfigs(
            cfg.get("arl").asLong(), cfg.get("mw").asInt(), cfg.get("nst").asInt(), 60_000L, tags,
            cost(cfg.get("tc")), cost(cfg.get("noc")), cfg.get("strat").asText());
    }

    private static OptionalInt cost(JsonNode cost) {
        return cost.asInt() < 0 ? OptionalInt.empty() : OptionalInt.of(cost.asInt());
    }
}
