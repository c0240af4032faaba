package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Kafka Streams' internal task assignors on problems of tests/data/vectors/streams.
 *
 * <p>A request is a line of such a file; {@code kind} names the assignor. The answer is its {@code out}.
 * With {@code times} in the request, the answer is {@code {"nanos": [...], "cpu": [...]}}: that many runs of the
 * assignor alone, each on clients of its own, by the clock and by the processor time of its thread.
 */
public final class StreamsAssignors {
    private StreamsAssignors() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(StreamsAssignors::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        StreamsProblem problem = new StreamsProblem(request);
        if (request.has("times")) {
            return timed(problem, request.get("times").asInt());
        }
        Map<ProcessId, ClientState> clients = problem.clients();
        boolean probing = assignor(request).assign(
            clients, problem.all, problem.stateful, problem.racks(), problem.configs);
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.put("probing", probing);
        ArrayNode tasks = answer.putArray("a");
        ArrayNode threads = answer.putArray("threads");
        for (JsonNode client : request.get("clients")) {
            ClientState state = clients.get(StreamsProblem.process(client));
            ArrayNode its = tasks.addArray();
            sorted(state.activeTasks(), its.addArray());
            sorted(state.standbyTasks(), its.addArray());
            threads(client, state, threads.addArray());
        }
        return answer;
    }

    private static JsonNode timed(StreamsProblem problem, int times) {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode nanos = answer.putArray("nanos");
        ArrayNode cpu = answer.putArray("cpu");
        ThreadMXBean thread = ManagementFactory.getThreadMXBean();
        for (int run = 0; run < times; run++) {
            Map<ProcessId, ClientState> clients = problem.clients();
            RackAwareTaskAssignor racks = problem.racks();
            LegacyTaskAssignor assignor = assignor(problem.given);
            long start = System.nanoTime();
            long busy = thread.getCurrentThreadCpuTime();
            assignor.assign(clients, problem.all, problem.stateful, racks, problem.configs);
            cpu.add(thread.getCurrentThreadCpuTime() - busy);
            nanos.add(System.nanoTime() - start);
        }
        return answer;
    }

    private static LegacyTaskAssignor assignor(JsonNode request) {
        return switch (request.get("kind").asText()) {
            case "ha", "harack" -> new HighAvailabilityTaskAssignor();
            case "sticky", "stickyrack" -> new LegacyStickyTaskAssignor();
            case "fallback" -> new FallbackPriorTaskAssignor();
            default -> throw new IllegalArgumentException(request.get("kind").asText());
        };
    }

    static void sorted(Collection<TaskId> tasks, ArrayNode list) {
        new TreeSet<>(tasks).forEach(task -> list.add(task.toString()));
    }

    /** The i-th previous stateful task was reported by consumer 7 i mod n, as in the vectors. */
    @SuppressWarnings("unchecked")
    private static void threads(JsonNode client, ClientState state, ArrayNode list) throws Exception {
        Field reported = ClientState.class.getDeclaredField("consumerToPreviousStatefulTaskIds");
        reported.setAccessible(true);
        Map<String, Set<TaskId>> byConsumer = (Map<String, Set<TaskId>>) reported.get(state);
        int count = client.get("cap").asInt();
        SortedSet<String> consumers = new TreeSet<>();
        for (int place = 0; place < count; place++) {
            consumers.add("c" + place);
            byConsumer.put("c" + place, new HashSet<>());
        }
        TreeSet<TaskId> before = new TreeSet<>(state.previousActiveTasks());
        before.addAll(state.previousStandbyTasks());
        before.retainAll(state.taskLagTotals().keySet());
        int place = 0;
        for (TaskId task : before) {
            byConsumer.get("c" + 7 * place++ % count).add(task);
        }
        Method deal = StreamsPartitionAssignor.class.getDeclaredMethod(
            "assignTasksToThreads", Collection.class, boolean.class, SortedSet.class, ClientState.class, Map.class);
        deal.setAccessible(true);
        Map<String, Integer> load = new HashMap<>();
        Object[] dealt = {
            deal.invoke(null, state.statefulActiveTasks(), true, consumers, state, load),
            deal.invoke(null, state.standbyTasks(), true, consumers, state, load),
            deal.invoke(null, state.statelessActiveTasks(), false, consumers, state, load),
        };
        for (int number = 0; number < count; number++) {
            ArrayNode its = list.addArray();
            for (Object role : dealt) {
                sorted(((Map<String, List<TaskId>>) role).get("c" + number), its.addArray());
            }
        }
    }
}
