package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.MemberData;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * Reads bytes as the coordinator, the consumer and the sticky assignor do.
 *
 * <p>A request is {@code {"what": "record", "key", "value"}} or {@code {"what": "subscription" |
 * "assignment" | "sticky", "bytes"}}, bytes as base64 or null. The answer has the values; for a
 * record also what the serde writes of it, {@code unwritable} where it refuses.
 */
public final class Payloads {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    private Payloads() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(Payloads::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        switch (request.get("what").asText()) {
            case "record":
                return record(buffer(request.get("key")), buffer(request.get("value")));
            case "subscription":
                return subscription(ConsumerProtocol.deserializeSubscription(buffer(request.get("bytes"))));
            case "assignment":
                return assignment(ConsumerProtocol.deserializeAssignment(buffer(request.get("bytes"))));
            default:
                return sticky(buffer(request.get("bytes")));
        }
    }

    private static ByteBuffer buffer(JsonNode base64) {
        return base64.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(base64.asText()));
    }

    private static JsonNode record(ByteBuffer key, ByteBuffer value) {
        CoordinatorRecord record = SERDE.deserialize(key, value);
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.put("type", record.key().apiKey());
        answer.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (record.value() == null) {
            answer.putNull("value");
        } else {
            short version = record.value().version();
            answer.put("version", version);
            answer.set(
                "value",
                CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version));
        }
        try {
            byte[] valueBytes = SERDE.serializeValue(record);
            answer.put("keyBytes", SERDE.serializeKey(record));
            answer.put("valueBytes", valueBytes);
        } catch (RuntimeException refused) {
            answer.put("unwritable", true);
        }
        return answer;
    }

    private static JsonNode subscription(Subscription made) {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode topics = answer.putArray("topics");
        made.topics().forEach(topics::add);
        answer.put("userData", bytes(made.userData()));
        answer.set("owned", partitions(made.ownedPartitions()));
        answer.put("generation", made.generationId().orElse(null));
        answer.put("rack", made.rackId().orElse(null));
        return answer;
    }

    private static JsonNode assignment(Assignment made) {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.set("partitions", partitions(made.partitions()));
        answer.put("userData", bytes(made.userData()));
        return answer;
    }

    /** The claims as the assignor reads them, and what it sends for them (no generation as -1). */
    private static JsonNode sticky(ByteBuffer userData) throws Exception {
        Subscription carrier = new Subscription(List.of(), userData);
        Method memberData = StickyAssignor.class.getDeclaredMethod("memberData", Subscription.class);
        Method serialize =
            StickyAssignor.class.getDeclaredMethod("serializeTopicPartitionAssignment", MemberData.class);
        memberData.setAccessible(true);
        serialize.setAccessible(true);
        try {
            MemberData claims = (MemberData) memberData.invoke(new StickyAssignor(), carrier);
            ObjectNode answer = JsonLines.JSON.createObjectNode();
            answer.set("partitions", partitions(claims.partitions));
            Optional<Integer> generation = claims.generation;
            answer.put("generation", generation.orElse(null));
            MemberData sent = new MemberData(claims.partitions, Optional.of(generation.orElse(-1)));
            answer.put("written", bytes((ByteBuffer) serialize.invoke(null, sent)));
            return answer;
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] out = new byte[buffer.remaining()];
        buffer.duplicate().get(out);
        return out;
    }

    private static ArrayNode partitions(List<TopicPartition> partitions) {
        ArrayNode list = JsonLines.JSON.createArrayNode();
        for (TopicPartition one : partitions) {
            list.addArray().add(one.topic()).add(one.partition());
        }
        return list;
    }
}
