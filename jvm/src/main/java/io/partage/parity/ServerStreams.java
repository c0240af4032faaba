package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** The coordinator's sticky assignor of streams groups on lines of server-streams-sticky.jsonl. */
public final class ServerStreams {
    private ServerStreams() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(ServerStreams::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : request.get("members")) {
            members.put(member.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.path("active")), tasks(member.path("standby")),
                Map.of(), member.get("process").asText(), Map.of(), Map.of(), Map.of()));
        }
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(one -> configs.put(one.getKey(), one.getValue().asText()));
        Map<String, MemberAssignment> assigned = new StickyTaskAssignor().assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), configs),
            new Topology(request.get("subtopologies"))).members();
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        assigned.forEach((member, its) -> {
            ObjectNode roles = answer.putObject(member);
            written(its.activeTasks(), roles.putArray("active"));
            written(its.standbyTasks(), roles.putArray("standby"));
        });
        return answer;
    }

    static Map<String, Set<Integer>> tasks(JsonNode pairs) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        for (JsonNode pair : pairs) {
            List<Integer> numbers = new ArrayList<>();
            pair.get(1).forEach(number -> numbers.add(number.asInt()));
            tasks.put(pair.get(0).asText(), new HashSet<>(numbers));
        }
        return tasks;
    }

    static void written(Map<String, Set<Integer>> tasks, ArrayNode list) {
        new TreeMap<>(tasks).forEach((subtopology, numbers) -> {
            ArrayNode sorted = list.addArray().add(subtopology).addArray();
            new TreeSet<>(numbers).forEach(sorted::add);
        });
    }

    private static final class Topology implements TopologyDescriber {
        private final Map<String, JsonNode> byId = new TreeMap<>();

        Topology(JsonNode subtopologies) {
            subtopologies.forEach(one -> byId.put(one.get("id").asText(), one));
        }

        @Override
        public List<String> subtopologies() {
            return List.copyOf(byId.keySet());
        }

        @Override
        public int maxNumInputPartitions(String subtopology) throws NoSuchElementException {
            return byId.get(subtopology).get("n").asInt();
        }

        @Override
        public boolean isStateful(String subtopology) {
            return byId.get(subtopology).get("stateful").asBoolean();
        }
    }
}
