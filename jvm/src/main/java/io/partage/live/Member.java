package io.partage.live;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of one process, started and closed by JSON lines; what happens to them goes out as lines.
 *
 * <p>In: {"do": "start", "id": "a", "topics": [...], "properties": {...}}, {"do": "close", "id": "a"}, and between them
 * {"do": "stall", "ms": 9000} (no poll for so long), {"do": "subscribe", "topics": [...]}, {"do": "enforce"}. Out:
 * {"id": "a", "event": "assigned" | "revoked" | "lost" | "read" | "error" | "closed", ...}. A member that is started
 * with "silent": true leaves commits to the client and reports no records. The Python twins are
 * tests/clients/member.py and tests/chaos/recorded_member.py.
 */
public final class Member implements Runnable, ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Member> RUNNING = new ConcurrentHashMap<>();

    private final String id;
    private final JsonNode told;
    private final AtomicBoolean closing = new AtomicBoolean();
    private final Queue<JsonNode> requests = new ConcurrentLinkedQueue<>();
    private final Thread thread = new Thread(this);
    private KafkaConsumer<byte[], byte[]> consumer;

    private Member(JsonNode told) {
        this.told = told;
        this.id = told.get("id").asText();
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode told = JSON.readTree(line);
            String id = told.get("id").asText();
            if (told.get("do").asText().equals("start")) {
                Member member = new Member(told);
                RUNNING.put(id, member);
                member.thread.start();
            } else if (told.get("do").asText().equals("close")) {
                RUNNING.get(id).closing.set(true);
            } else {
                RUNNING.get(id).requests.add(told);
            }
        }
        for (Member member : RUNNING.values()) {
            member.closing.set(true);
            member.thread.join(10_000);
        }
        System.exit(0);
    }

    @Override
    public void run() {
        Properties properties = new Properties();
        told.get("properties").fields().forEachRemaining(one -> properties.put(one.getKey(), one.getValue().asText()));
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        List<String> topics = new ArrayList<>();
        told.get("topics").forEach(topic -> topics.add(topic.asText()));
        try (KafkaConsumer<byte[], byte[]> made = new KafkaConsumer<>(properties)) {
            consumer = made;
            consumer.subscribe(topics, this);
            boolean silent = told.path("silent").asBoolean();
            if (silent) {
                say(event("started"));
            }
            while (!closing.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (JsonNode one = requests.poll(); one != null; one = requests.poll()) {
                    answer(one);
                }
                if (!silent && !records.isEmpty()) {
                    // Told before it is committed: at least once.
                    read(records);
                    commit();
                }
            }
        } catch (RuntimeException | InterruptedException thrown) {
            say(event("error").put("what", thrown.toString()));
        }
        say(event("closed"));
    }

    private void answer(JsonNode request) throws InterruptedException {
        switch (request.get("do").asText()) {
            case "stall" -> {
                say(event("stall").put("ms", request.get("ms").asLong()));
                Thread.sleep(request.get("ms").asLong());
            }
            case "enforce" -> {
                consumer.enforceRebalance("asked for by the test");
                say(event("enforced"));
            }
            case "subscribe" -> {
                List<String> topics = new ArrayList<>();
                request.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
                say(event("resubscribed"));
            }
            default -> say(event("error").put("what", "unknown request " + request.get("do")));
        }
    }

    /** What cannot be committed, since the group or its coordinator has moved on, is read again. */
    private void commit() {
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException thrown) {
            say(event("error").put("what", thrown.toString()));
        }
    }

    private void read(ConsumerRecords<byte[], byte[]> records) {
        ObjectNode said = event("read");
        ArrayNode rows = said.putArray("records");
        for (ConsumerRecord<byte[], byte[]> one : records) {
            rows.addArray().add(one.topic()).add(one.partition()).add(one.offset());
        }
        say(said);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say(owned("assigned", partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say(owned("revoked", partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say(owned("lost", partitions));
    }

    private ObjectNode owned(String what, Collection<TopicPartition> partitions) {
        ObjectNode said = event(what).put("generation", consumer.groupMetadata().generationId())
            .put("member", consumer.groupMetadata().memberId());
        ArrayNode rows = said.putArray("owns");
        for (TopicPartition one : consumer.assignment()) {
            rows.addArray().add(one.topic()).add(one.partition());
        }
        ArrayNode changed = said.putArray("partitions");
        for (TopicPartition one : partitions) {
            changed.addArray().add(one.topic()).add(one.partition());
        }
        return said;
    }

    private ObjectNode event(String what) {
        return JSON.createObjectNode().put("id", id).put("event", what)
            .put("at", System.currentTimeMillis() / 1000.0);
    }

    private static void say(JsonNode said) {
        synchronized (System.out) {
            System.out.println(said);
            System.out.flush();
        }
    }
}
