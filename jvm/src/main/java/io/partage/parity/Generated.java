package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * What {@code kafka-reassign-partitions --generate} proposes, without a cluster.
 *
 * <p>The tool asks the cluster for topics and brokers and hands both to a private method of its own, which
 * is called here. A request has {@code brokers} (id, rack), {@code topics} (for each its partitions'
 * replicas) and how many {@code runs} (the tool's placer is seeded anew by each); the answer has for each run
 * all replicas in the order of the request. kafka-tools is in the broker's jars: see jvm/broker.
 */
public final class Generated {
    private static Method calculate;

    private Generated() {
    }

    public static void main(String[] args) throws Exception {
        calculate = Class.forName("org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
            .getDeclaredMethod("calculateAssignment", Map.class, List.class);
        calculate.setAccessible(true);
        JsonLines.serve(Generated::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode one : request.get("brokers")) {
            brokers.add(new UsableBroker(
                one.get("id").asInt(), Optional.ofNullable(one.path("rack").textValue()), false));
        }
        List<TopicPartition> order = new ArrayList<>();
        Map<TopicPartition, List<Integer>> current = new HashMap<>();
        int topic = 0;
        for (JsonNode partitions : request.get("topics")) {
            for (int p = 0; p < partitions.size(); p++) {
                TopicPartition one = new TopicPartition("t" + topic, p);
                List<Integer> replicas = new ArrayList<>();
                partitions.get(p).forEach(replica -> replicas.add(replica.asInt()));
                order.add(one);
                current.put(one, replicas);
            }
            topic++;
        }
        ArrayNode runs = JsonLines.JSON.createArrayNode();
        for (int run = 0; run < request.get("runs").asInt(); run++) {
            Map<?, ?> proposed = (Map<?, ?>) calculate.invoke(null, current, brokers);
            ArrayNode out = runs.addArray();
            for (TopicPartition one : order) {
                ((List<?>) proposed.get(one)).forEach(replica -> out.add((Integer) replica));
            }
        }
        return runs;
    }
}
