package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Writes and reads what Streams' members and leader put into user data.
 *
 * <p>A request with {@code bytes} reads them; one without makes the object of its fields, which are
 * those of the vectors ({@code what}: subscription or assignment), and writes it. The answer has
 * the object as it is read back, of a subscription that is read also the bytes it writes again.
 */
public final class StreamsInfos {
    private StreamsInfos() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(StreamsInfos::answer);
    }

    private static JsonNode answer(JsonNode request) {
        boolean subscription = request.get("what").asText().equals("subscription");
        byte[] bytes;
        boolean given = request.has("bytes");
        if (given) {
            bytes = Base64.getDecoder().decode(request.get("bytes").asText());
        } else {
            ByteBuffer made = subscription ? subscription(request).encode() : assignment(request).encode();
            made.rewind();
            bytes = new byte[made.remaining()];
            made.get(bytes);
        }
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        if (!given) {
            answer.put("bytes", bytes);
        }
        if (subscription) {
            SubscriptionInfo read = SubscriptionInfo.decode(ByteBuffer.wrap(bytes));
            answer.set("decoded", shown(read));
            if (given && read.version() <= 11) {
                answer.put("again", read.encode().array());
            }
        } else {
            answer.set("decoded", shown(AssignmentInfo.decode(ByteBuffer.wrap(bytes))));
        }
        return answer;
    }

    private static SubscriptionInfo subscription(JsonNode request) {
        Map<TaskId, Long> sums = new LinkedHashMap<>();
        request.get("offsets").forEach(pair -> sums.put(task(pair.get(0)), pair.get(1).asLong()));
        Map<String, String> tags = new LinkedHashMap<>();
        request.get("tags").forEach(pair -> tags.put(pair.get(0).asText(), pair.get(1).asText()));
        JsonNode endpoint = request.get("endpoint");
        return new SubscriptionInfo(
            request.get("version").asInt(),
            request.get("latest").asInt(),
            new ProcessId(new UUID(request.get("msb").asLong(), request.get("lsb").asLong())),
            endpoint.isNull() ? null : endpoint.asText(),
            sums,
            (byte) request.get("unique").asInt(),
            request.get("errorCode").asInt(),
            tags);
    }

    private static AssignmentInfo assignment(JsonNode request) {
        List<TaskId> active = new ArrayList<>();
        request.get("active").forEach(one -> active.add(task(one)));
        Map<TaskId, Set<TopicPartition>> standby = new LinkedHashMap<>();
        request.get("standby").forEach(one -> standby.put(task(one.get(0)), partitions(one.get(1))));
        AssignmentInfo made = new AssignmentInfo(
            request.get("version").asInt(),
            request.get("common").asInt(),
            active,
            standby,
            hosts(request.get("hosts")),
            hosts(request.get("standbyHosts")),
            request.get("errorCode").asInt());
        if (request.has("next")) {
            made.setNextRebalanceTime(request.get("next").asLong());
        }
        return made;
    }

    private static TaskId task(JsonNode task) {
        String name = task.size() > 2 ? task.get(2).asText() : null;
        return new TaskId(task.get(0).asInt(), task.get(1).asInt(), name);
    }

    private static Set<TopicPartition> partitions(JsonNode list) {
        Set<TopicPartition> partitions = new LinkedHashSet<>();
        list.forEach(one -> partitions.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        return partitions;
    }

    private static Map<HostInfo, Set<TopicPartition>> hosts(JsonNode list) {
        Map<HostInfo, Set<TopicPartition>> hosts = new LinkedHashMap<>();
        list.forEach(one -> hosts.put(
            new HostInfo(one.get(0).asText(), one.get(1).asInt()), partitions(one.get(2))));
        return hosts;
    }

    /** Maps and sets come in no particular order: the other side sorts. */
    private static JsonNode shown(SubscriptionInfo info) {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.put("version", info.version());
        answer.put("latest", info.latestSupportedVersion());
        answer.put("msb", info.processId().id().getMostSignificantBits());
        answer.put("lsb", info.processId().id().getLeastSignificantBits());
        answer.put("endpoint", info.userEndPoint());
        ArrayNode offsets = answer.putArray("offsets");
        info.taskOffsetSums().forEach((task, sum) -> {
            ArrayNode pair = offsets.addArray();
            pair.add(named(task));
            pair.add(sum);
        });
        ArrayNode previous = answer.putArray("prev");
        info.prevTasks().forEach(task -> previous.add(named(task)));
        ArrayNode standby = answer.putArray("standby");
        info.standbyTasks().forEach(task -> standby.add(named(task)));
        answer.put("errorCode", info.errorCode());
        ArrayNode tags = answer.putArray("tags");
        info.clientTags().forEach((key, value) -> tags.addArray().add(key).add(value));
        return answer;
    }

    private static JsonNode shown(AssignmentInfo info) {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        answer.put("version", info.version());
        answer.put("common", info.commonlySupportedVersion());
        ArrayNode active = answer.putArray("active");
        info.activeTasks().forEach(task -> active.add(named(task)));
        ArrayNode standby = answer.putArray("standby");
        info.standbyTasks().forEach((task, own) -> {
            ArrayNode pair = standby.addArray();
            pair.add(named(task));
            pair.add(listed(own));
        });
        answer.set("hosts", listed(info.partitionsByHost()));
        answer.set("standbyHosts", listed(info.standbyPartitionByHost()));
        answer.put("errorCode", info.errCode());
        answer.put("next", info.nextRebalanceMs());
        return answer;
    }

    private static JsonNode named(TaskId task) {
        ArrayNode answer = JsonLines.JSON.createArrayNode();
        answer.add(task.subtopology()).add(task.partition());
        if (task.topologyName() != null) {
            answer.add(task.topologyName());
        }
        return answer;
    }

    private static JsonNode listed(Set<TopicPartition> partitions) {
        ArrayNode list = JsonLines.JSON.createArrayNode();
        partitions.forEach(one -> list.addArray().add(one.topic()).add(one.partition()));
        return list;
    }

    private static JsonNode listed(Map<HostInfo, Set<TopicPartition>> hosts) {
        ArrayNode list = JsonLines.JSON.createArrayNode();
        hosts.forEach((host, own) -> {
            ArrayNode one = list.addArray();
            one.add(host.host()).add(host.port());
            one.add(listed(own));
        });
        return list;
    }
}
