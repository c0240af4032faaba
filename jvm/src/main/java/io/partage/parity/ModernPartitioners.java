package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.clients.producer.internals.FedBuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.ShortSerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.UUIDSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner;

/** The partitioners and serializers of the release on the class path. */
final class ModernPartitioners {
    private static final String TOPIC = "t";

    private ModernPartitioners() {
    }

    static JsonNode answer(JsonNode request) {
        return switch (request.get("what").asText()) {
            case "murmur2" -> keys(request);
            case "streams:windowed" -> windowed(request);
            case "java:roundrobin:4" -> turns(request);
            case "java:builtin" -> builtIn(request);
            case "serializers" -> serialized(request);
            default -> throw new IllegalArgumentException(request.get("what").asText());
        };
    }

    private static JsonNode keys(JsonNode request) {
        int count = request.get("count").asInt();
        ArrayNode out = JsonLines.JSON.createArrayNode();
        for (JsonNode key : request.get("keys")) {
            out.add(BuiltInPartitioner.partitionForKey(HexFormat.of().parseHex(key.asText()), count));
        }
        return out;
    }

    private static JsonNode windowed(JsonNode request) {
        int count = request.get("count").asInt();
        TimeWindowedSerializer<byte[]> serializer = new TimeWindowedSerializer<>(new ByteArraySerializer());
        WindowedStreamPartitioner<byte[], byte[]> partitioner = new WindowedStreamPartitioner<>(serializer);
        ArrayNode out = JsonLines.JSON.createArrayNode();
        for (JsonNode one : request.get("windows")) {
            byte[] key = HexFormat.of().parseHex(one.get(0).asText());
            long start = one.get(1).asLong();
            Windowed<byte[]> window = new Windowed<>(key, new TimeWindow(start, start + 1));
            ArrayNode said = out.addArray();
            said.add(HexFormat.of().formatHex(serializer.serialize(TOPIC, window)));
            said.add(partitioner.partitions(TOPIC, window, null, count).orElseThrow().iterator().next());
        }
        return out;
    }

    private static Cluster cluster(JsonNode partitions) {
        Node node = new Node(1, "h", 9092);
        List<PartitionInfo> infos = new ArrayList<>();
        for (JsonNode one : partitions) {
            Node leader = one.get(1).asBoolean() ? node : null;
            infos.add(new PartitionInfo(TOPIC, one.get(0).asInt(), leader, new Node[0], new Node[0]));
        }
        return new Cluster("c", List.of(node), infos, Set.of(), Set.of());
    }

    private static JsonNode turns(JsonNode request) {
        Cluster cluster = cluster(request.get("topics").get(TOPIC));
        ObjectNode said = JsonLines.JSON.createObjectNode();
        ArrayNode out = said.putArray("partitions");
        try (RoundRobinPartitioner partitioner = new RoundRobinPartitioner()) {
            for (JsonNode one : request.get("records")) {
                out.add(partitioner.partition(TOPIC, null, Partitioners.key(one), null, null, cluster));
            }
        }
        return said;
    }

    /** Steps: ["peek"], ["update", bytes, may switch], ["queues", sizes or null, ids, length], ["cluster", i]. */
    private static JsonNode builtIn(JsonNode request) {
        List<Cluster> clusters = new ArrayList<>();
        request.get("clusters").forEach(one -> clusters.add(cluster(one)));
        Cluster now = clusters.get(0);
        FedBuiltInPartitioner partitioner = new FedBuiltInPartitioner(TOPIC, request.get("size").asInt());
        request.get("numbers").forEach(number -> partitioner.feed(number.asInt()));
        ArrayNode out = JsonLines.JSON.createArrayNode();
        for (JsonNode step : request.get("steps")) {
            switch (step.get(0).asText()) {
                case "peek" -> out.add(partitioner.peek(now));
                case "update" -> partitioner.update(step.get(1).asInt(), now, step.get(2).asBoolean());
                case "cluster" -> now = clusters.get(step.get(1).asInt());
                default -> partitioner.updatePartitionLoadStats(
                    ints(step.get(1)), ints(step.get(2)), step.get(3).asInt());
            }
        }
        return out;
    }

    private static int[] ints(JsonNode numbers) {
        if (numbers.isNull()) {
            return null;
        }
        int[] out = new int[numbers.size()];
        for (int i = 0; i < out.length; i++) {
            out[i] = numbers.get(i).asInt();
        }
        return out;
    }

    private static JsonNode serialized(JsonNode request) {
        ArrayNode out = JsonLines.JSON.createArrayNode();
        for (JsonNode one : request.get("values")) {
            out.add(HexFormat.of().formatHex(bytes(one.get(0).asText(), one.get(1))));
        }
        return out;
    }

    private static byte[] bytes(String kind, JsonNode value) {
        return switch (kind) {
            case "string" -> new StringSerializer().serialize(TOPIC, value.asText());
            case "short" -> new ShortSerializer().serialize(TOPIC, (short) value.asInt());
            case "int" -> new IntegerSerializer().serialize(TOPIC, value.asInt());
            case "long" -> new LongSerializer().serialize(TOPIC, value.asLong());
            case "float" -> new FloatSerializer().serialize(TOPIC, (float) value.asDouble());
            case "double" -> new DoubleSerializer().serialize(TOPIC, value.asDouble());
            case "uuid" -> new UUIDSerializer().serialize(TOPIC, UUID.fromString(value.asText()));
            case "string hash" -> hash(value.asText().hashCode());
            case "long hash" -> hash(Long.hashCode(value.asLong()));
            case "uuid hash" -> hash(UUID.fromString(value.asText()).hashCode());
            case "bytes" -> value.asText().getBytes(StandardCharsets.UTF_8);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static byte[] hash(int code) {
        return new IntegerSerializer().serialize(TOPIC, code);
    }
}
