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
import java.util.Collections;
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
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * The group coordinator's assignors, Kafka's and Partage's, on problems of vectors (server-*.jsonl), with the
 * containers that the coordinator itself passes.
 *
 * <p>A request has {@code strategy}, {@code topics}, {@code members} and perhaps {@code assignable} and
 * {@code config} (settings of the broker).
 * The answer is {@code {"type": ..., "assignment": ...}} or {@code {"error": class}}.
 */
public final class ServerAssignors {
    private ServerAssignors() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(ServerAssignors::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        Topics topics = new Topics(request.get("topics"));
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

    /** The metadata: ids by name, counts by id. -1 or absent means that the count is not known. */
    private static final class Topics implements SubscribedTopicDescriber, TopicIds.TopicResolver {
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();
        private final Map<Uuid, Integer> counts = new HashMap<>();
        private final Map<Uuid, JsonNode> racks = new HashMap<>();

        Topics(JsonNode topics) {
            for (JsonNode topic : topics) {
                Uuid id = Uuid.fromString(topic.get("id").asText());
                counts.put(id, topic.get("n").asInt());
                racks.put(id, topic.path("racks"));
                if (!topic.path("noname").asBoolean(false)) {
                    ids.put(topic.get("name").asText(), id);
                    names.put(id, topic.get("name").asText());
                }
            }
        }

        @Override
        public CoordinatorMetadataImage image() {
            throw new UnsupportedOperationException();
        }

        @Override
        public String name(Uuid id) {
            return names.get(id);
        }

        @Override
        public Uuid id(String name) {
            return ids.get(name);
        }

        @Override
        public void clear() {
        }

        @Override
        public int numPartitions(Uuid id) {
            return counts.getOrDefault(id, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid id, int partition) {
            Set<String> names = new TreeSet<>();
            racks.get(id).path(partition).forEach(rack -> names.add(rack.asText()));
            return names;
        }
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

    private static GroupSpec group(JsonNode request, Topics topics, SubscriptionType type) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : request.get("members")) {
            String id = member.get("id").asText();
            Map<Uuid, Set<Integer>> target = partitions(member.path("target"));
            target.forEach((topic, numbers) -> {
                Map<Integer, String> of = owners.computeIfAbsent(topic, any -> new HashMap<>());
                numbers.forEach(number -> of.put(number, id));
            });
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                text(member, "rack"), text(member, "instance"),
                new TopicIds(names(member), topics), new Assignment(Collections.unmodifiableMap(target))));
        }
        Optional<Map<Uuid, Set<Integer>>> assignable =
            request.has("assignable") ? Optional.of(partitions(request.get("assignable"))) : Optional.empty();
        return new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners, assignable);
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
