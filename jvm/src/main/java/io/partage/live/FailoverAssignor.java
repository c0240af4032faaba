package io.partage.live;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Priority fail-over as documented: who has the highest priority gets everything, in a Java group.
 *
 * <p>Four bytes of user data, an int32, tell a member's priority. Equal priorities: the document
 * leaves it open, and the lower member id wins here as it does in Partage.
 */
public final class FailoverAssignor extends AbstractPartitionAssignor implements Configurable {
    private static final String PRIORITY = "assignment.consumer.priority";
    private static final ConfigDef KNOWN = new ConfigDef().define(PRIORITY, ConfigDef.Type.INT, Integer.MAX_VALUE,
        ConfigDef.Importance.HIGH, "The member of the highest priority has all partitions of the group.");

    private int priority = Integer.MAX_VALUE;

    @Override
    public void configure(Map<String, ?> configs) {
        priority = new AbstractConfig(KNOWN, configs, false).getInt(PRIORITY);
    }

    @Override
    public String name() {
        return "failover";
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return ByteBuffer.allocate(Integer.BYTES).putInt(0, priority);
    }

    @Override
    public Map<String, List<TopicPartition>> assign(
            Map<String, Integer> partitionsPerTopic, Map<String, Subscription> subscriptions) {
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        subscriptions.keySet().forEach(member -> plan.put(member, new ArrayList<>()));
        // Read without moving the buffer's own position: whoever looks after us sees the same bytes.
        Comparator<Map.Entry<String, Subscription>> byPriority =
            Comparator.comparingInt(entry -> entry.getValue().userData().duplicate().getInt());
        String active = subscriptions.entrySet().stream()
            .max(byPriority.thenComparing(Map.Entry.comparingByKey(Comparator.reverseOrder())))
            .orElseThrow().getKey();
        partitionsPerTopic.forEach((topic, count) -> {
            for (int partition = 0; partition < count; partition++) {
                plan.get(active).add(new TopicPartition(topic, partition));
            }
        });
        return plan;
    }
}
