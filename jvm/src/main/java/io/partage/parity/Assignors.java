package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
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

/**
 * Kafka's consumer-side assignors on the problems of tests/data/vectors.
 *
 * <p>A request has {@code strategy} and either {@code topics} and {@code members}, or {@code rounds}
 * of these, which one assignor object makes in turn. The answer is {@code {"assignment": ...}} or
 * {@code {"error": class}}; for rounds a list of these, which an error ends. With {@code repeat} the
 * answer is {@code {"nanos": [...]}}, how long the class took each time.
 */
public final class Assignors {
    private Assignors() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(Assignors::answer);
    }

    private static JsonNode answer(JsonNode request) {
        ConsumerPartitionAssignor assignor = assignor(request.get("strategy").asText());
        if (request.has("repeat")) {
            return times(assignor, request);
        }
        if (!request.has("rounds")) {
            return assign(assignor, request);
        }
        ArrayNode answers = JsonLines.JSON.createArrayNode();
        for (JsonNode round : request.get("rounds")) {
            ObjectNode one = assign(assignor, round);
            answers.add(one);
            if (one.has("error")) {
                break;
            }
        }
        return answers;
    }

    private static ConsumerPartitionAssignor assignor(String strategy) {
        return switch (strategy) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
    }

    private static JsonNode times(ConsumerPartitionAssignor assignor, JsonNode request) {
        Cluster cluster = cluster(request.get("topics"));
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode nanos = answer.putArray("nanos");
        for (int i = 0; i < request.get("repeat").asInt(); i++) {
            GroupSubscription group = new GroupSubscription(subscriptions(request));
            long start = System.nanoTime();
            assignor.assign(cluster, group);
            nanos.add(System.nanoTime() - start);
        }
        return answer;
    }

    private static Map<String, Subscription> subscriptions(JsonNode problem) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : problem.get("members")) {
            members.put(member.get("id").asText(), subscription(member));
        }
        return members;
    }

    private static ObjectNode assign(ConsumerPartitionAssignor assignor, JsonNode problem) {
        Map<String, Subscription> members = subscriptions(problem);
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        Map<String, Assignment> assigned;
        try {
            assigned = assignor.assign(cluster(problem.get("topics")), new GroupSubscription(members))
                .groupAssignment();
        } catch (RuntimeException refused) {
            return answer.put("error", refused.getClass().getSimpleName());
        }
        ObjectNode assignment = answer.putObject("assignment");
        assigned.forEach((member, its) -> {
            ArrayNode list = assignment.putArray(member);
            for (TopicPartition partition : its.partitions()) {
                list.addArray().add(partition.topic()).add(partition.partition());
            }
        });
        Transfers.addTo(answer, assignor);
        return answer;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        for (JsonNode topic : member.path("topics")) {
            topics.add(topic.asText());
        }
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode pair : member.path("owned")) {
            owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt()));
        }
        ByteBuffer userData = text(member, "userData")
            .map(encoded -> ByteBuffer.wrap(Base64.getDecoder().decode(encoded))).orElse(null);
        int generation = member.path("generation").asInt(-1);
        Subscription made = new Subscription(topics, userData, owned, generation, text(member, "rack"));
        made.setGroupInstanceId(text(member, "instance"));
        return made;
    }

    private static Optional<String> text(JsonNode member, String field) {
        JsonNode value = member.path(field);
        return value.isTextual() ? Optional.of(value.asText()) : Optional.empty();
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            JsonNode value = topic.getValue();
            int count = value.isArray() ? value.size() : value.asInt();
            for (int p = 0; p < count; p++) {
                Node[] replicas = value.isArray() ? replicas(value.get(p), nodes) : replicas(null, nodes);
                Node leader = replicas.length == 0 ? Node.noNode() : replicas[0];
                partitions.add(new PartitionInfo(topic.getKey(), p, leader, replicas, replicas));
            }
        });
        return new Cluster("parity", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** One broker a rack is enough: the assignors look at racks only. Null racks is one rackless replica. */
    private static Node[] replicas(JsonNode racks, Map<String, Node> nodes) {
        Node[] replicas = new Node[racks == null ? 1 : racks.size()];
        for (int i = 0; i < replicas.length; i++) {
            JsonNode rack = racks == null ? null : racks.get(i);
            String name = rack == null || rack.isNull() ? null : rack.asText();
            Node node = nodes.get(name);
            if (node == null) {
                node = new Node(nodes.size(), "broker-" + nodes.size(), 9092, name);
                nodes.put(name, node);
            }
            replicas[i] = node;
        }
        return replicas;
    }
}
