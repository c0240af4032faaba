package io.partage.live;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.partage.parity.JsonLines;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a test asks of a living cluster, one JSON request a line: {"do": "create-topic", ...}.
 *
 * <p>One process for all requests of a test, since each of Kafka's own tools costs a second of JVM.
 */
public final class Admin {
    private final org.apache.kafka.clients.admin.Admin admin;
    private final KafkaProducer<byte[], byte[]> producer;

    private Admin(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        admin = org.apache.kafka.clients.admin.Admin.create(properties);
        properties.put("acks", "all");
        // A broker shows a new topic before it leads its partitions. If it refuses a partition's first
        // batch and takes the second, it refuses the retry as out of order until the send times out.
        properties.put("max.in.flight.requests.per.connection", "1");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        producer = new KafkaProducer<>(properties);
    }

    public static void main(String[] args) throws IOException {
        Admin here = new Admin(args[0]);
        JsonLines.serve(request -> {
            try {
                return here.answer(request);
            } catch (Exception thrown) {
                Throwable cause = thrown.getCause() == null ? thrown : thrown.getCause();
                return object().put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
        });
        System.exit(0);
    }

    private static ObjectNode object() {
        return JsonLines.JSON.createObjectNode();
    }

    private JsonNode answer(JsonNode request) throws Exception {
        return switch (request.get("do").asText()) {
            case "create-topic" -> createTopic(request);
            case "delete-topic" -> deleteTopic(request);
            case "grow-topic" -> growTopic(request);
            case "describe-topic" -> describeTopic(request);
            case "brokers" -> brokers();
            case "describe-group" -> describeGroup(request);
            case "committed" -> committed(request);
            case "end-offsets" -> endOffsets(request);
            case "produce" -> produce(request);
            default -> object().put("error", "unknown request " + request.get("do"));
        };
    }

    /** name, partitions and replicas, or assignment (partition to brokers), configs. */
    private JsonNode createTopic(JsonNode request) throws Exception {
        NewTopic topic;
        if (request.hasNonNull("assignment")) {
            Map<Integer, List<Integer>> assignment = new TreeMap<>();
            request.get("assignment").fields().forEachRemaining(entry -> {
                List<Integer> replicas = new ArrayList<>();
                entry.getValue().forEach(one -> replicas.add(one.asInt()));
                assignment.put(Integer.parseInt(entry.getKey()), replicas);
            });
            topic = new NewTopic(request.get("name").asText(), assignment);
        } else {
            topic = new NewTopic(request.get("name").asText(), request.get("partitions").asInt(),
                (short) request.path("replicas").asInt(1));
        }
        Map<String, String> configs = new HashMap<>();
        request.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        var made = admin.createTopics(List.of(topic.configs(configs)));
        made.all().get();
        return object().put("id", made.topicId(topic.name()).get().toString());
    }

    private JsonNode deleteTopic(JsonNode request) throws Exception {
        admin.deleteTopics(List.of(request.get("name").asText())).all().get();
        return object();
    }

    private JsonNode growTopic(JsonNode request) throws Exception {
        admin.createPartitions(Map.of(request.get("name").asText(),
            NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get();
        return object();
    }

    private JsonNode describeTopic(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        TopicDescription said = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        ObjectNode answer = object().put("id", said.topicId().toString());
        ArrayNode partitions = answer.putArray("partitions");
        for (TopicPartitionInfo one : said.partitions()) {
            ObjectNode partition = partitions.addObject().put("partition", one.partition())
                .put("leader", one.leader() == null ? -1 : one.leader().id());
            one.replicas().forEach(node -> partition.withArray("replicas").add(node.id()));
            one.isr().forEach(node -> partition.withArray("isr").add(node.id()));
        }
        return answer;
    }

    private JsonNode brokers() throws Exception {
        ArrayNode answer = JsonLines.JSON.createArrayNode();
        for (Node node : admin.describeCluster().nodes().get()) {
            answer.addObject().put("id", node.id()).put("rack", node.rack());
        }
        return answer;
    }

    private JsonNode describeGroup(JsonNode request) throws Exception {
        String name = request.get("group").asText();
        ConsumerGroupDescription said = admin.describeConsumerGroups(List.of(name)).all().get().get(name);
        ObjectNode answer = object().put("state", said.groupState().toString())
            .put("strategy", said.partitionAssignor());
        answer.put("coordinator", said.coordinator() == null ? -1 : said.coordinator().id());
        ArrayNode members = answer.putArray("members");
        for (MemberDescription member : said.members()) {
            ObjectNode one = members.addObject().put("id", member.consumerId()).put("client", member.clientId())
                .put("instance", member.groupInstanceId().orElse(null));
            ArrayNode owned = one.putArray("owned");
            for (TopicPartition partition : member.assignment().topicPartitions()) {
                owned.addArray().add(partition.topic()).add(partition.partition());
            }
        }
        return answer;
    }

    private JsonNode committed(JsonNode request) throws Exception {
        ObjectNode answer = object();
        Map<TopicPartition, OffsetAndMetadata> said =
            admin.listConsumerGroupOffsets(request.get("group").asText()).partitionsToOffsetAndMetadata().get();
        said.forEach((partition, offset) -> {
            if (offset != null) {
                answer.put(partition.toString(), offset.offset());
            }
        });
        return answer;
    }

    /** topic to its end offsets, by partition. */
    private JsonNode endOffsets(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        int partitions = admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().size();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int partition = 0; partition < partitions; partition++) {
            asked.put(new TopicPartition(name, partition), OffsetSpec.latest());
        }
        var said = admin.listOffsets(asked).all().get();
        ArrayNode answer = JsonLines.JSON.createArrayNode();
        for (int partition = 0; partition < partitions; partition++) {
            answer.add(said.get(new TopicPartition(name, partition)).offset());
        }
        return answer;
    }

    /** records: [partition or null, key or null, value or null] each; answers when all are acknowledged. */
    private JsonNode produce(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
        for (JsonNode one : request.get("records")) {
            Integer partition = one.get(0).isNull() ? null : one.get(0).asInt();
            sent.add(producer.send(new ProducerRecord<>(name, partition, bytes(one.get(1)), bytes(one.get(2)))));
        }
        producer.flush();
        for (var one : sent) {
            one.get();
        }
        return object().put("sent", sent.size());
    }

    private static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }
}
