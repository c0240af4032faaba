package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.PartitionGrouper;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor.ClientMetadata;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentListener;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.apache.kafka.streams.state.HostInfo;

/**
 * From members to every consumer's assignment: Kafka's partition grouper, client states, the high
 * availability assignor, threads, withheld tasks, hosts and follow-ups, in the leader's order.
 *
 * <p>What of the leader needs a broker (topics, end offsets) is in the request: {@code groups}
 * (number, sources, stateful), {@code counts}, {@code ends} of tasks; {@code members}, {@code cfg},
 * {@code leader}, {@code now}.
 */
public final class StreamsLeader {
    private StreamsLeader() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(StreamsLeader::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        Map<TaskId, Set<TopicPartition>> partitions = partitions(request);
        Map<TopicPartition, TaskId> tasks = new HashMap<>();
        partitions.forEach((task, its) -> its.forEach(one -> tasks.put(one, task)));
        Map<TaskId, Long> ends = new HashMap<>();
        request.get("ends").properties().forEach(
            one -> ends.put(TaskId.parse(one.getKey()), one.getValue().asLong()));

        Map<ProcessId, ClientMetadata> clients = new HashMap<>();
        Set<TopicPartition> owned = new HashSet<>();
        join(request, clients, owned);
        Map<ProcessId, ClientState> states = new HashMap<>();
        clients.forEach((process, client) -> {
            client.state().initializePrevTasks(tasks, false);
            client.state().computeTaskLags(process, ends);
            states.put(process, client.state());
        });
        StreamsProblem problem = new StreamsProblem(request);
        RackAwareTaskAssignor racks = problem.racks();
        Set<TaskId> stateful = new HashSet<>(ends.keySet());
        boolean probing = new HighAvailabilityTaskAssignor().assign(
            states, partitions.keySet(), stateful, racks, problem.configs);
        if (probing) {
            clients.get(StreamsProblem.process(request.get("leader"))).state().setFollowupRebalanceDeadline(
                Instant.ofEpochMilli(request.get("now").asLong() + problem.configs.probingRebalanceIntervalMs()));
        }
        return finish(clients, partitions, stateful, owned);
    }

    private static Map<TaskId, Set<TopicPartition>> partitions(JsonNode request) {
        List<PartitionInfo> known = new ArrayList<>();
        request.get("counts").properties().forEach(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                known.add(new PartitionInfo(topic.getKey(), number, null, new Node[0], new Node[0]));
            }
        });
        Map<Subtopology, Set<String>> groups = new HashMap<>();
        for (JsonNode group : request.get("groups")) {
            Set<String> sources = new HashSet<>();
            group.get("sources").forEach(topic -> sources.add(topic.asText()));
            groups.put(new Subtopology(group.get("number").asInt(), null), sources);
        }
        return new PartitionGrouper().partitionGroups(
            groups, new Cluster("parity", List.of(), known, Set.of(), Set.of()));
    }

    private static void join(JsonNode request, Map<ProcessId, ClientMetadata> clients, Set<TopicPartition> owned)
        throws ReflectiveOperationException {
        Constructor<ClientMetadata> made = open(ClientMetadata.class.getDeclaredConstructor(
            ProcessId.class, String.class, Map.class, Optional.class));
        Method add = open(ClientMetadata.class.getDeclaredMethod("addConsumer", String.class, List.class));
        Map<String, JsonNode> members = new HashMap<>();
        request.get("members").forEach(member -> members.put(member.get("id").asText(), member));
        for (Map.Entry<String, JsonNode> entry : members.entrySet()) {
            JsonNode member = entry.getValue();
            ProcessId process = StreamsProblem.process(member);
            if (!clients.containsKey(process)) {
                String endpoint = member.get("endpoint").isNull() ? null : member.get("endpoint").asText();
                clients.put(process, made.newInstance(
                    process, endpoint, StreamsProblem.tags(member), StreamsProblem.rack(member)));
            }
            List<TopicPartition> its = new ArrayList<>();
            member.get("owned").forEach(one -> its.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
            add.invoke(clients.get(process), entry.getKey(), its);
            owned.addAll(its);
            Map<TaskId, Long> sums = new HashMap<>();
            member.get("sums").properties().forEach(
                one -> sums.put(TaskId.parse(one.getKey()), one.getValue().asLong()));
            clients.get(process).state().addPreviousTasksAndOffsetSums(entry.getKey(), sums);
        }
    }

    @SuppressWarnings("unchecked")
    private static JsonNode finish(Map<ProcessId, ClientMetadata> clients, Map<TaskId, Set<TopicPartition>> partitions,
                                   Set<TaskId> stateful, Set<TopicPartition> owned) throws Exception {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        StreamsPartitionAssignor leader = new StreamsPartitionAssignor();
        // A logger that says nothing; the library is there when this runs, not when it is compiled.
        set(leader, "log", Class.forName("org.slf4j.helpers.NOPLogger").getField("NOP_LOGGER").get(null));
        set(leader, "assignmentListener", (AssignmentListener) stable -> answer.put("stable", stable));
        Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
        Map<HostInfo, Set<TopicPartition>> standbyHosts = new HashMap<>();
        call(leader, "populatePartitionsByHostMaps", hosts, standbyHosts, partitions, clients);
        Map<String, Assignment> assigned = (Map<String, Assignment>) call(
            leader, "computeNewAssignment", stateful, clients, partitions, hosts, standbyHosts, owned, 11, 11, false);
        ObjectNode consumers = answer.putObject("consumers");
        new TreeMap<>(assigned).forEach((name, assignment) -> {
            AssignmentInfo info = AssignmentInfo.decode(assignment.userData());
            ObjectNode its = consumers.putObject(name);
            written(assignment.partitions(), its.putArray("partitions"));
            ArrayNode active = its.putArray("active");
            info.activeTasks().forEach(task -> active.add(task.toString()));
            ObjectNode standby = its.putObject("standby");
            info.standbyTasks().forEach((task, of) -> sorted(of, standby.putArray(task.toString())));
            its.put("next", info.nextRebalanceMs());
        });
        hosts.forEach((host, of) -> sorted(of, answer.withObject("/hosts").putArray(host.host())));
        standbyHosts.forEach((host, of) -> sorted(of, answer.withObject("/standbyHosts").putArray(host.host())));
        return answer;
    }

    private static void sorted(Collection<TopicPartition> partitions, ArrayNode list) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparingInt(TopicPartition::partition));
        written(sorted, list);
    }

    private static void written(List<TopicPartition> partitions, ArrayNode list) {
        partitions.forEach(one -> list.addArray().add(one.topic()).add(one.partition()));
    }

    private static Object call(Object on, String name, Object... arguments) throws Exception {
        for (Method method : StreamsPartitionAssignor.class.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                try {
                    return open(method).invoke(on, arguments);
                } catch (InvocationTargetException thrown) {
                    throw thrown.getCause() instanceof Exception cause ? cause : thrown;
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static void set(Object on, String name, Object value) throws ReflectiveOperationException {
        Field field = open(StreamsPartitionAssignor.class.getDeclaredField(name));
        field.set(on, value);
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }
}
