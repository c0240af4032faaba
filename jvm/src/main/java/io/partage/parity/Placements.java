package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * Replicas placed by {@code StripedReplicaPlacer} (4.3.1) and by {@code AdminUtils} (3.9.1, behind a
 * class loader of its own), in the notation of tests/data/vectors/consumer.
 *
 * <p>With arguments BROKERS PARTITIONS FACTOR it prints nanoseconds instead, best of thirty: striped, AdminUtils.
 */
public final class Placements {
    private static Method assign;
    private static Constructor<?> broker;

    private Placements() {
    }

    public static void main(String[] args) throws Exception {
        OldJars old = OldJars.of(Path.of(args[0]), "admin-3.9.1");
        broker = old.named("org.apache.kafka.admin.BrokerMetadata").getConstructor(int.class, Optional.class);
        assign = old.named("org.apache.kafka.admin.AdminUtils").getMethod(
            "assignReplicasToBrokers", Collection.class, int.class, int.class, int.class, int.class);
        if (args.length == 1) {
            JsonLines.serve(Placements::answer);
        } else {
            time(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        }
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        return request.get("kind").asText().equals("striped") ? striped(request) : admin(request);
    }

    private static JsonNode admin(JsonNode request) throws Exception {
        List<Object> brokers = new ArrayList<>();
        for (JsonNode one : request.get("brokers")) {
            brokers.add(broker.newInstance(one.get("id").asInt(), rack(one)));
        }
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        Map<?, ?> placed;
        try {
            placed = (Map<?, ?>) assign.invoke(null, brokers, request.get("partitions").asInt(),
                request.get("rf").asInt(), request.get("start").asInt(), request.get("first").asInt());
        } catch (InvocationTargetException thrown) {
            return answer.put("error", thrown.getCause().getClass().getSimpleName());
        }
        ArrayNode out = answer.putArray("out");
        new TreeMap<>(placed).forEach((partition, replicas) -> {
            ArrayNode row = out.addArray().add((Integer) partition).addArray();
            ((List<?>) replicas).forEach(replica -> row.add((Integer) replica));
        });
        return answer;
    }

    private static JsonNode striped(JsonNode request) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode one : request.get("brokers")) {
            brokers.add(new UsableBroker(one.get("id").asInt(), rack(one), one.get("fenced").asBoolean()));
        }
        StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random(request.get("seed").asLong()));
        PlacementSpec spec = new PlacementSpec(
            0, request.get("partitions").asInt(), request.get("rf").shortValue());
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode times = answer.putArray("out");
        int count = request.path("times").asInt(1);
        for (int i = 0; i < count; i++) {
            ArrayNode out = request.has("times") ? times.addArray() : times;
            for (PartitionAssignment one : placer.place(spec, new Described(brokers)).assignments()) {
                ArrayNode row = out.addArray();
                one.replicas().forEach(row::add);
            }
        }
        return answer;
    }

    private static Optional<String> rack(JsonNode broker) {
        JsonNode rack = broker.path("rack");
        return rack.isTextual() ? Optional.of(rack.asText()) : Optional.empty();
    }

    private static void time(int count, int partitions, int factor) throws Exception {
        List<UsableBroker> usable = new ArrayList<>();
        List<Object> brokers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Optional<String> rack = Optional.of("r" + i % 10);
            usable.add(new UsableBroker(i, rack, false));
            brokers.add(broker.newInstance(i, rack));
        }
        StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random(0));
        PlacementSpec spec = new PlacementSpec(0, partitions, (short) factor);
        long striped = Long.MAX_VALUE;
        long admin = Long.MAX_VALUE;
        long placed = 0;
        for (int round = 0; round < 30; round++) {
            long start = System.nanoTime();
            placed += placer.place(spec, new Described(usable)).assignments().size();
            striped = Math.min(striped, System.nanoTime() - start);
            start = System.nanoTime();
            placed += ((Map<?, ?>) assign.invoke(null, brokers, partitions, factor, 0, -1)).size();
            admin = Math.min(admin, System.nanoTime() - start);
        }
        System.out.println(striped + " " + admin + " " + placed);
    }

    private record Described(List<UsableBroker> brokers) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return brokers.iterator();
        }

        @Override
        public Uuid defaultDir(int brokerId) {
            return new Uuid(0, brokerId);
        }
    }
}
