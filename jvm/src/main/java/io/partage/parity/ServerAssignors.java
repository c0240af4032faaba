package io.partage.parity;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.partage.assignors.broker.FailoverAssignor;
import io.partage.assignors.broker.FairAssignor;
import io.partage.assignors.broker.OptimalAssignor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * The group coordinator's assignors, Kafka's and Partage's, on problems of vectors (server-*.jsonl), with the
 * containers that the coordinator itself passes.
 *
 * <p>A request has {@code strategy}, {@code topics}, {@code members} and perhaps {@code assignable},
 * {@code config} (settings of the broker) and {@code broken} (metadata that throw).
 * The answer is {@code {"type": ..., "assignment": ...}} or {@code {"error": class}}.
 */
public final class ServerAssignors {
    private ServerAssignors() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(ServerAssignors::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        CoordinatorGroup.Topics topics = topics(request);
        SubscriptionType type = type(request.get("members"));
        GroupSpec group = group(request, topics, type);
        PartitionAssignor assignor = assignor(request.get("strategy").asText());
        if (request.has("config") && assignor instanceof Configurable configurable) {
            configurable.configure(JsonLines.JSON.convertValue(
                request.get("config"), new TypeReference<Map<String, Object>>() { }));
        }
        Map<String, MemberAssignment> assigned = assignor.assign(group, topics).members();
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.put("type", type.name());
        ObjectNode assignment = answer.putObject("assignment");
        assigned.forEach((member, its) -> written(its.partitions(), assignment.putArray(member)));
        return answer;
    }

    private static PartitionAssignor assignor(String strategy) {
        return switch (strategy) {
            case "server:range" -> new RangeAssignor();
            case "server:uniform" -> new UniformAssignor();
            case "server:simple" -> new SimpleAssignor();
            case "server:partage-optimal" -> new OptimalAssignor();
            case "server:partage-fair" -> new FairAssignor();
            case "server:partage-failover" -> new FailoverAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
    }

    private static CoordinatorGroup.Topics topics(JsonNode request) {
        CoordinatorGroup.Topics topics = new CoordinatorGroup.Topics(request.path("broken").asBoolean(false));
        for (JsonNode topic : request.get("topics")) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            JsonNode racks = topic.path("racks");
            topics.add(id, topic.get("n").asInt(), partition -> {
                Set<String> names = new TreeSet<>();
                racks.path(partition).forEach(rack -> names.add(rack.asText()));
                return names;
            });
            if (!topic.path("noname").asBoolean(false)) {
                topics.name(id, topic.get("name").asText());
            }
        }
        return topics;
    }

    private static SubscriptionType type(JsonNode members) {
        Map<String, Integer> subscribers = new HashMap<>();
        for (JsonNode member : members) {
            for (String name : names(member)) {
                subscribers.merge(name, 1, Integer::sum);
            }
        }
        boolean equal = subscribers.values().stream().allMatch(count -> count == members.size());
        return equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    private static Set<String> names(JsonNode member) {
        List<String> names = new ArrayList<>();
        member.path("topics").forEach(name -> names.add(name.asText()));
        return new HashSet<>(names);
    }

    private static GroupSpec group(JsonNode request, CoordinatorGroup.Topics topics, SubscriptionType type) {
        CoordinatorGroup group = new CoordinatorGroup(topics);
        for (JsonNode member : request.get("members")) {
            group.add(member.get("id").asText(), text(member, "rack"), text(member, "instance"), names(member),
                partitions(member.path("target")));
        }
        return group.spec(type,
            request.has("assignable") ? Optional.of(partitions(request.get("assignable"))) : Optional.empty());
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode pairs) {
        Map<Uuid, Set<Integer>> partitions = new HashMap<>();
        for (JsonNode pair : pairs) {
            List<Integer> numbers = new ArrayList<>();
            pair.get(1).forEach(number -> numbers.add(number.asInt()));
            partitions.put(Uuid.fromString(pair.get(0).asText()), new HashSet<>(numbers));
        }
        return partitions;
    }

    private static Optional<String> text(JsonNode member, String field) {
        JsonNode value = member.path(field);
        return value.isTextual() ? Optional.of(value.asText()) : Optional.empty();
    }

    private static void written(Map<Uuid, Set<Integer>> partitions, ArrayNode list) {
        new TreeMap<>(partitions).forEach((topic, numbers) -> {
            ArrayNode pair = list.addArray().add(topic.toString());
            ArrayNode sorted = pair.addArray();
            new TreeSet<>(numbers).forEach(sorted::add);
        });
    }
}
