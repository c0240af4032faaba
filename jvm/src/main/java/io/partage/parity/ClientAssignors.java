package io.partage.parity;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.partage.assignors.client.FailoverAssignor;
import io.partage.assignors.client.FairAssignor;
import io.partage.assignors.client.OptimalAssignor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Partage's client-side assignors as a leader runs them: bytes of all subscriptions in, bytes of all
 * assignments out.
 *
 * <p>A request has {@code strategy}, {@code config}, {@code topics} (for each name the nodes of each
 * partition's replicas), {@code racks} (by node) and {@code members} ({@code id}, {@code instance},
 * {@code metadata}). With {@code "say": [topics]} the answer is the user data of a subscription.
 */
public final class ClientAssignors {
    private ClientAssignors() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(ClientAssignors::answer);
    }

    private static ConsumerPartitionAssignor assignor(JsonNode request) {
        ConsumerPartitionAssignor made = switch (request.get("strategy").asText()) {
            case "optimal" -> new OptimalAssignor();
            case "fair" -> new FairAssignor();
            case "failover" -> new FailoverAssignor();
            default -> throw new IllegalArgumentException(request.get("strategy").asText());
        };
        if (made instanceof Configurable configurable && request.has("config")) {
            configurable.configure(JsonLines.JSON.convertValue(
                request.get("config"), new TypeReference<Map<String, Object>>() { }));
        }
        return made;
    }

    private static JsonNode answer(JsonNode request) {
        ConsumerPartitionAssignor assignor = assignor(request);
        if (request.has("say")) {
            Set<String> topics = new TreeSet<>();
            request.get("say").forEach(topic -> topics.add(topic.asText()));
            ByteBuffer data = assignor.subscriptionUserData(topics);
            return JsonLines.JSON.createObjectNode().put("userData", data == null ? null : base64(data));
        }
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : request.get("members")) {
            byte[] sent = Base64.getDecoder().decode(member.get("metadata").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(sent));
            if (member.path("instance").isTextual()) {
                subscription.setGroupInstanceId(Optional.of(member.get("instance").asText()));
            }
            members.put(member.get("id").asText(), subscription);
        }
        Map<String, Assignment> out =
            assignor.assign(cluster(request), new GroupSubscription(members)).groupAssignment();
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        out.forEach((id, one) -> answer.put(id, base64(ConsumerProtocol.serializeAssignment(one))));
        return answer;
    }

    private static Cluster cluster(JsonNode request) {
        Map<Integer, Node> nodes = new HashMap<>();
        request.path("racks").fields().forEachRemaining(one -> {
            int id = Integer.parseInt(one.getKey());
            String rack = one.getValue().isNull() ? null : one.getValue().asText();
            nodes.put(id, new Node(id, "localhost", 1 + id, rack));
        });
        List<PartitionInfo> partitions = new ArrayList<>();
        request.get("topics").fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode replicas : topic.getValue()) {
                Node[] on = new Node[replicas.size()];
                for (int i = 0; i < on.length; i++) {
                    on[i] = nodes.get(replicas.get(i).asInt());
                }
                partitions.add(new PartitionInfo(topic.getKey(), number++, on.length > 0 ? on[0] : null, on, on));
            }
        });
        return new Cluster("parity", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static String base64(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return Base64.getEncoder().encodeToString(copy);
    }
}
