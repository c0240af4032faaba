package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.streams.processor.internals.InternalTopicConfig;
import org.apache.kafka.streams.processor.internals.InternalTopicManager;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder.TopicsInfo;
import org.apache.kafka.streams.processor.internals.RepartitionTopicConfig;
import org.apache.kafka.streams.processor.internals.RepartitionTopics;
import org.apache.kafka.streams.processor.internals.TopologyMetadata;
import org.apache.kafka.streams.processor.internals.assignment.CopartitionedTopicsEnforcer;

/**
 * Partition counts of repartition topics: Kafka's own resolution, then its own co-partitioning.
 *
 * <p>A request has {@code groups} (sources, sinks, repartition: topic to count or null), in the order in which
 * they are to be walked, {@code joined} (sets of topics) and {@code counts} of the topics that exist.
 */
public final class StreamsTopics {
    private StreamsTopics() {
    }

    public static void main(String[] args) throws IOException {
        JsonLines.serve(StreamsTopics::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        try {
            new TreeMap<>(resolved(request)).forEach(
                (topic, config) -> answer.put(topic, config.numberOfPartitions().orElse(-1)));
            return JsonLines.JSON.createObjectNode().set("counts", answer);
        } catch (InvocationTargetException thrown) {
            return answer.put("error", thrown.getCause().getClass().getSimpleName());
        }
    }

    private static Map<String, InternalTopicConfig> resolved(JsonNode request) throws Exception {
        Map<String, InternalTopicConfig> configs = new HashMap<>();
        List<TopicsInfo> groups = new ArrayList<>();
        Constructor<TopicsInfo> made =
            open(TopicsInfo.class.getDeclaredConstructor(Set.class, Set.class, Map.class, Map.class));
        for (JsonNode group : request.get("groups")) {
            Map<String, InternalTopicConfig> mine = new HashMap<>();
            for (Map.Entry<String, JsonNode> topic : group.get("repartition").properties()) {
                mine.put(topic.getKey(), config(topic.getKey(), topic.getValue()));
            }
            configs.putAll(mine);
            groups.add(made.newInstance(texts(group.get("sinks")), texts(group.get("sources")), mine, Map.of()));
        }
        Cluster cluster = cluster(request);
        CopartitionedTopicsEnforcer enforcer = new CopartitionedTopicsEnforcer("");
        RepartitionTopics topics = new RepartitionTopics(
            (TopologyMetadata) null, (InternalTopicManager) null, enforcer, cluster, "");
        Method resolve = open(RepartitionTopics.class.getDeclaredMethod(
            "setRepartitionSourceTopicPartitionCount", Map.class, Collection.class, Cluster.class));
        resolve.invoke(topics, configs, groups, cluster);
        Method enforce = CopartitionedTopicsEnforcer.class.getMethod("enforce", Set.class, Map.class, Cluster.class);
        for (JsonNode joined : request.get("joined")) {
            enforce.invoke(enforcer, texts(joined), configs, cluster);
        }
        return configs;
    }

    private static RepartitionTopicConfig config(String name, JsonNode count) throws ReflectiveOperationException {
        if (count.isNull()) {
            return open(RepartitionTopicConfig.class.getDeclaredConstructor(String.class, Map.class))
                .newInstance(name, Map.of());
        }
        return open(RepartitionTopicConfig.class.getDeclaredConstructor(
            String.class, Map.class, int.class, boolean.class)).newInstance(name, Map.of(), count.asInt(), true);
    }

    private static Cluster cluster(JsonNode request) {
        List<PartitionInfo> known = new ArrayList<>();
        request.get("counts").properties().forEach(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                known.add(new PartitionInfo(topic.getKey(), number, null, new Node[0], new Node[0]));
            }
        });
        return new Cluster("parity", List.of(), known, Set.of(), Set.of());
    }

    private static Set<String> texts(JsonNode list) {
        Set<String> texts = new HashSet<>();
        list.forEach(one -> texts.add(one.asText()));
        return texts;
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }
}
