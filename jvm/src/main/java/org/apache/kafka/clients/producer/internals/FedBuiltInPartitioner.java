package org.apache.kafka.clients.producer.internals;

import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;

/** Kafka's partitioner with random numbers from outside; here because what it offers is package-private. */
public final class FedBuiltInPartitioner extends BuiltInPartitioner {
    private final Deque<Integer> numbers = new ArrayDeque<>();

    public FedBuiltInPartitioner(String topic, int stickyBatchSize) {
        super(new LogContext(), topic, stickyBatchSize);
    }

    public void feed(int number) {
        numbers.add(number);
    }

    @Override
    int randomPartition() {
        return Utils.toPositive(numbers.remove());
    }

    public int peek(Cluster cluster) {
        return peekCurrentPartitionInfo(cluster).partition();
    }

    public void update(int appended, Cluster cluster, boolean enableSwitch) {
        updatePartitionInfo(peekCurrentPartitionInfo(cluster), appended, cluster, enableSwitch);
    }
}
