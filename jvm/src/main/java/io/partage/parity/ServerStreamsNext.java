package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * The coordinator's sticky assignor of Kafka 4.4 on lines of server-streams-sticky.jsonl, whose members may have
 * "offsets": its classes share names with those of 4.3. Argument: the folder that has the folders of its jars.
 */
public final class ServerStreamsNext {
    private static final String API = "org.apache.kafka.coordinator.group.api.streams.assignor.";
    private static final String OURS = "org.apache.kafka.coordinator.group.streams.assignor.";

    private final OldJars jars;

    private ServerStreamsNext(OldJars jars) {
        this.jars = jars;
    }

    public static void main(String[] args) throws Exception {
        JsonLines.serve(new ServerStreamsNext(OldJars.of(Path.of(args[0]), "coordinator-4.4.0"))::answer);
    }

    private JsonNode answer(JsonNode request) throws Exception {
        try {
            return assigned(request);
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    private JsonNode assigned(JsonNode request) throws Exception {
        Class<?> configs = jars.named(OURS + "AssignmentConfigsImpl");
        Map<String, String> texts = new HashMap<>();
        request.get("configs").properties().forEach(one -> texts.put(one.getKey(), one.getValue().asText()));
        Object made = configs.getMethod("fromMap", Map.class).invoke(null, texts);
        Object group = jars.named(OURS + "GroupSpecImpl")
            .getConstructor(Map.class, jars.named(API + "AssignmentConfigs"))
            .newInstance(members(request.get("members")), made);
        Class<?> describer = jars.named(API + "TopologyDescriber");
        Class<?> assignor = jars.named(OURS + "StickyTaskAssignor");
        Object plan = assignor.getMethod("assign", jars.named(API + "GroupSpec"), describer)
            .invoke(assignor.getConstructor().newInstance(), group, topology(describer, request.get("subtopologies")));
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        for (Map.Entry<?, ?> one : ((Map<?, ?>) got(plan, "members")).entrySet()) {
            ObjectNode roles = answer.putObject((String) one.getKey());
            ServerStreams.written(tasks(one.getValue(), "activeTasks"), roles.putArray("active"));
            ServerStreams.written(tasks(one.getValue(), "standbyTasks"), roles.putArray("standby"));
        }
        return answer;
    }

    private Map<String, Object> members(JsonNode requested) throws Exception {
        Map<String, Object> members = new HashMap<>();
        for (JsonNode member : requested) {
            members.put(member.get("id").asText(), jars.named(OURS + "MemberMetadataAndStateImpl").getConstructor(
                Optional.class, Optional.class, String.class, Map.class, Map.class, Map.class, Map.class, Map.class,
                Map.class).newInstance(Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(),
                ServerStreams.tasks(member.path("active")), ServerStreams.tasks(member.path("standby")), Map.of(),
                offsets(member.path("offsets")), Map.of()));
        }
        return members;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode bySubtopology) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        for (JsonNode one : bySubtopology) {
            Map<Integer, Long> sums = new HashMap<>();
            one.get(1).forEach(pair -> sums.put(pair.get(0).asInt(), pair.get(1).asLong()));
            offsets.put(one.get(0).asText(), sums);
        }
        return offsets;
    }

    private static Object topology(Class<?> describer, JsonNode subtopologies) {
        Map<String, JsonNode> byId = new TreeMap<>();
        subtopologies.forEach(one -> byId.put(one.get("id").asText(), one));
        return Proxy.newProxyInstance(describer.getClassLoader(), new Class<?>[] {describer},
            (self, method, arguments) -> switch (method.getName()) {
                case "subtopologies" -> List.copyOf(byId.keySet());
                case "maxNumInputPartitions" -> byId.get((String) arguments[0]).get("n").asInt();
                case "isStateful" -> byId.get((String) arguments[0]).get("stateful").asBoolean();
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Set<Integer>> tasks(Object assignment, String role) throws Exception {
        return (Map<String, Set<Integer>>) got(assignment, role);
    }

    private static Object got(Object from, String name) throws Exception {
        return from.getClass().getMethod(name).invoke(from);
    }
}
