package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils.RackAwareOptimizationParams;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.DefaultKafkaStreamsState;

/**
 * The public task assignor and helpers of KIP-924 on problems of tests/data/vectors/streams.
 *
 * <p>{@code kind} is {@code k924}, {@code pres} (preserving actives) or {@code utils} (helpers alone,
 * after task i went to client 5 i mod n). Tasks hash as their ids: Kafka's own objects hash by address.
 */
public final class StreamsPublic {
    private StreamsPublic() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(StreamsPublic::answer);
    }

    private static JsonNode answer(JsonNode request) {
        State state = new State(new StreamsProblem(request));
        Collection<KafkaStreamsAssignment> assigned = switch (request.get("kind").asText()) {
            case "k924", "k924rack" -> new StickyTaskAssignor().assign(state).assignment();
            case "pres" -> new StickyTaskAssignor(true).assign(state).assignment();
            case "utils", "utilsrack" -> helpers(state);
            default -> throw new IllegalArgumentException(request.get("kind").asText());
        };
        Map<ProcessId, KafkaStreamsAssignment> byProcess = new HashMap<>();
        assigned.forEach(one -> byProcess.put(one.processId(), one));
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode tasks = answer.putArray("a");
        ArrayNode followUps = answer.putArray("fu");
        for (JsonNode client : request.get("clients")) {
            KafkaStreamsAssignment its = byProcess.get(StreamsProblem.process(client));
            ArrayNode roles = tasks.addArray();
            for (AssignedTask.Type role : AssignedTask.Type.values()) {
                Set<TaskId> of = its.tasks().values().stream().filter(task -> task.type() == role)
                    .map(AssignedTask::id).collect(Collectors.toCollection(TreeSet::new));
                StreamsAssignors.sorted(of, roles.addArray());
            }
            followUps.add(its.followupRebalanceDeadline().isPresent() ? 1 : 0);
        }
        return answer;
    }

    private static Collection<KafkaStreamsAssignment> helpers(State state) {
        List<ProcessId> order = new ArrayList<>();
        Map<ProcessId, KafkaStreamsAssignment> assignments = new HashMap<>();
        for (JsonNode client : state.problem.given.get("clients")) {
            order.add(StreamsProblem.process(client));
            assignments.put(StreamsProblem.process(client),
                KafkaStreamsAssignment.of(StreamsProblem.process(client), new HashSet<>()));
        }
        int place = 0;
        for (JsonNode task : state.problem.given.get("all")) {
            assignments.get(order.get(5 * place++ % order.size())).assignTask(
                new AssignedTask(TaskId.parse(task.asText()), AssignedTask.Type.ACTIVE));
        }
        TaskAssignmentUtils.optimizeRackAwareActiveTasks(RackAwareOptimizationParams.of(state), assignments);
        TaskAssignmentUtils.defaultStandbyTaskAssignment(state, assignments);
        TaskAssignmentUtils.optimizeRackAwareStandbyTasks(RackAwareOptimizationParams.of(state), assignments);
        return assignments.values();
    }

    private static final class State implements ApplicationState {
        private final StreamsProblem problem;
        private final Map<TaskId, TaskInfo> tasks = new HashMap<>();
        private final Map<ProcessId, KafkaStreamsState> clients = new HashMap<>();

        State(StreamsProblem problem) {
            this.problem = problem;
            for (JsonNode name : problem.given.get("all")) {
                TaskId task = TaskId.parse(name.asText());
                tasks.put(task, new Task(problem, task));
            }
            for (JsonNode client : problem.given.get("clients")) {
                ProcessId process = StreamsProblem.process(client);
                clients.put(process, new DefaultKafkaStreamsState(
                    process, client.get("cap").asInt(), StreamsProblem.tags(client),
                    StreamsProblem.tasks(client.get("pa"), new TreeSet<>()),
                    StreamsProblem.tasks(client.get("ps"), new TreeSet<>()),
                    new TreeMap<>(), Optional.empty(), Optional.empty(), StreamsProblem.rack(client)));
            }
        }

        @Override
        public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
            return clients;
        }

        @Override
        public AssignmentConfigs assignmentConfigs() {
            return problem.configs;
        }

        @Override
        public Map<TaskId, TaskInfo> allTasks() {
            return tasks;
        }
    }

    private static final class Task implements TaskInfo {
        private final TaskId id;
        private final boolean stateful;
        private final Set<TaskTopicPartition> partitions = new HashSet<>();

        Task(StreamsProblem problem, TaskId id) {
            this.id = id;
            this.stateful = problem.stateful.contains(id);
            problem.sources.get(id).forEach(
                one -> partitions.add(new Partition(one, false, problem.replicas.get(one))));
            problem.changelogs.getOrDefault(id, Set.of()).forEach(
                one -> partitions.add(new Partition(one, true, problem.replicas.get(one))));
        }

        @Override
        public TaskId id() {
            return id;
        }

        @Override
        public boolean isStateful() {
            return stateful;
        }

        @Override
        public Set<String> stateStoreNames() {
            return stateful ? Set.of("store") : Set.of();
        }

        @Override
        public Set<TaskTopicPartition> topicPartitions() {
            return partitions;
        }

        @Override
        public int hashCode() {
            return id.hashCode();
        }

        @Override
        public boolean equals(Object other) {
            return this == other;
        }
    }

    private record Partition(TopicPartition topicPartition, boolean isChangelog, Set<Node> nodes)
        implements TaskTopicPartition {
        @Override
        public boolean isSource() {
            return !isChangelog;
        }

        @Override
        public Optional<Set<String>> rackIds() {
            if (nodes.stream().anyMatch(node -> !node.hasRack())) {
                return Optional.empty();
            }
            return Optional.of(nodes.stream().map(Node::rack).collect(Collectors.toSet()));
        }
    }
}
