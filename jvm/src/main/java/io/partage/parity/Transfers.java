package io.partage.parity;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.Comparator;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.TopicPartition;

/** The sticky assignors' map of partitions that change hands; it is not public. */
final class Transfers {
    private Transfers() {
    }

    /** Field {@code transferring}: [topic, partition, new owner], sorted; null after the general algorithm. */
    static void addTo(ObjectNode answer, ConsumerPartitionAssignor assignor) {
        if (!(assignor instanceof AbstractStickyAssignor)) {
            return;
        }
        Map<TopicPartition, String> transferring = read(assignor);
        if (transferring == null) {
            answer.putNull("transferring");
            return;
        }
        ArrayNode rows = answer.putArray("transferring");
        transferring.entrySet().stream()
            .sorted(Map.Entry.comparingByKey(
                Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition)))
            .forEach(one -> rows.addArray()
                .add(one.getKey().topic()).add(one.getKey().partition()).add(one.getValue()));
    }

    @SuppressWarnings("unchecked")
    private static Map<TopicPartition, String> read(ConsumerPartitionAssignor assignor) {
        try {
            Field field = AbstractStickyAssignor.class.getDeclaredField("partitionsTransferringOwnership");
            field.setAccessible(true);
            return (Map<TopicPartition, String>) field.get(assignor);
        } catch (ReflectiveOperationException changed) {
            throw new IllegalStateException(changed);
        }
    }
}
