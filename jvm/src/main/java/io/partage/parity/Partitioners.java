package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import sun.misc.Unsafe;

/**
 * What the producers' own partitioners of several releases decide, call by call.
 *
 * <p>A request is {@code {"what", "topics": {name: [[partition, has a leader], ...]}, "records":
 * [[topic, key in hex or null, explicit partition or null], ...], "counter", "random"}}; the argument
 * of the program is the folder of the old jars. The answer has {@code partitions}: a number, or the
 * message of what was thrown; and {@code drawn}, the random numbers that were at hand, where the
 * class draws from ThreadLocalRandom. A record whose topic begins with "!" is a new batch of that topic,
 * its explicit partition being the previous one.
 */
public final class Partitioners {
    private static final String PRODUCER = "org.apache.kafka.clients.producer.";
    private static final int NUMBERS = 400;
    private static final HexFormat HEX = HexFormat.of();

    private static Path old;

    private Partitioners() {
    }

    public static void main(String[] args) throws IOException {
        old = Path.of(args[0]);
        JsonLines.serve(Partitioners::answer);
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        return switch (request.get("what").asText()) {
            case "java:0.8" -> first(request);
            case "java:0.9" -> later(request, "java-0.9.0.1", "internals.DefaultPartitioner");
            case "java:2.3" -> later(request, "java-2.3.1", "internals.DefaultPartitioner");
            case "java:3.9" -> later(request, "java-3.9.1", "internals.DefaultPartitioner");
            case "java:uniform-sticky" -> later(request, "java-3.9.1", "UniformStickyPartitioner");
            case "java:roundrobin" -> later(request, "java-3.9.1", "RoundRobinPartitioner");
            case "scala:0.8.1" -> scala(request, "scala-0.8.1.1", "DefaultPartitioner", false);
            case "scala:0.8.2" -> scala(request, "scala-0.8.2.2", "DefaultPartitioner", false);
            case "scala:0.8.1:bytes" -> scala(request, "scala-0.8.1.1", "ByteArrayPartitioner", true);
            case "scala:0.8.2:bytes" -> scala(request, "scala-0.8.2.2", "ByteArrayPartitioner", true);
            case "abs" -> abs(request);
            default -> ModernPartitioners.answer(request);
        };
    }

    /** 0.8.2.2: a class, not yet an interface, which is handed the whole record. */
    private static JsonNode first(JsonNode request) throws Exception {
        OldJars jars = OldJars.of(old, "java-0.8.2.2");
        Object cluster = jars.cluster(request.get("topics"));
        Class<?> kind = jars.named(PRODUCER + "internals.Partitioner");
        Class<?> recordClass = jars.named(PRODUCER + "ProducerRecord");
        Constructor<?> record = recordClass.getConstructor(
            String.class, Integer.class, Object.class, Object.class);
        Object partitioner = kind.getConstructor().newInstance();
        counter(kind, partitioner).set(request.get("counter").asInt());
        Method partition = kind.getMethod("partition", recordClass, cluster.getClass());
        ObjectNode said = JsonLines.JSON.createObjectNode();
        ArrayNode out = said.putArray("partitions");
        for (JsonNode one : request.get("records")) {
            Integer explicit = one.get(2).isNull() ? null : one.get(2).asInt();
            Object made = record.newInstance(one.get(0).asText(), explicit, key(one), null);
            call(out, partition, partitioner, made, cluster);
        }
        return said;
    }

    /** 0.9 and later: the interface; an explicit partition never reaches it. */
    private static JsonNode later(JsonNode request, String release, String name) throws Exception {
        OldJars jars = OldJars.of(old, release);
        Object cluster = jars.cluster(request.get("topics"));
        Class<?> kind = jars.named(PRODUCER + name);
        Object partitioner = kind.getConstructor().newInstance();
        Method partition = kind.getMethod("partition",
            String.class, Object.class, byte[].class, Object.class, byte[].class, cluster.getClass());
        Method newBatch = release.equals("java-3.9.1")
            ? kind.getMethod("onNewBatch", String.class, cluster.getClass(), int.class) : null;
        if (request.has("counter")) {
            counter(kind, partitioner).set(request.get("counter").asInt());
        }
        ObjectNode said = JsonLines.JSON.createObjectNode();
        ArrayNode drawn = said.putArray("drawn");
        if (request.has("random")) {
            predict(request.get("random").asLong(), drawn);
        }
        ArrayNode out = said.putArray("partitions");
        for (JsonNode one : request.get("records")) {
            String topic = one.get(0).asText();
            if (topic.startsWith("!")) {
                newBatch.invoke(partitioner, topic.substring(1), cluster, one.get(2).asInt());
                out.addNull();
            } else {
                call(out, partition, partitioner, topic, null, key(one), null, null, cluster);
            }
        }
        return said;
    }

    private static JsonNode scala(JsonNode request, String release, String name, boolean bytes)
            throws Exception {
        OldJars jars = OldJars.of(old, release);
        Class<?> properties = jars.named("kafka.utils.VerifiableProperties");
        Class<?> kind = jars.named("kafka.producer." + name);
        Object partitioner = kind.getConstructor(properties).newInstance((Object) null);
        Method partition = kind.getMethod("partition", Object.class, int.class);
        int count = request.get("topics").get("t").size();
        ObjectNode said = JsonLines.JSON.createObjectNode();
        ArrayNode out = said.putArray("partitions");
        for (JsonNode one : request.get("records")) {
            byte[] key = key(one);
            call(out, partition, partitioner,
                bytes ? key : new String(key, StandardCharsets.UTF_8), count);
        }
        return said;
    }

    /** Utils.abs of a release, which is not what it is called everywhere. */
    private static JsonNode abs(JsonNode request) throws Exception {
        String release = request.get("release").asText();
        OldJars jars = OldJars.of(old, release);
        ArrayNode out = JsonLines.JSON.createArrayNode();
        boolean scala = release.startsWith("scala");
        Class<?> kind = jars.named(scala ? "kafka.utils.Utils$" : "org.apache.kafka.common.utils.Utils");
        Object module = scala ? kind.getField("MODULE$").get(null) : null;
        Method abs = kind.getMethod("abs", int.class);
        for (JsonNode number : request.get("numbers")) {
            out.add((int) abs.invoke(module, number.asInt()));
        }
        return out;
    }

    private static void call(ArrayNode out, Method method, Object on, Object... arguments) throws Exception {
        try {
            out.add((int) method.invoke(on, arguments));
        } catch (InvocationTargetException thrown) {
            out.add(thrown.getCause().getMessage());
        }
    }

    static byte[] key(JsonNode record) {
        return record.get(1).isNull() ? null : HEX.parseHex(record.get(1).asText());
    }

    @SuppressWarnings("unchecked")
    private static AtomicInteger counter(Class<?> kind, Object partitioner) throws Exception {
        for (Field field : kind.getDeclaredFields()) {
            field.setAccessible(true);
            if (field.getName().equals("counter")) {
                return (AtomicInteger) field.get(partitioner);
            }
            if (field.getName().equals("topicCounterMap")) {
                AtomicInteger made = new AtomicInteger();
                ((Map<String, AtomicInteger>) field.get(partitioner)).put("t", made);
                return made;
            }
        }
        throw new IllegalStateException("no counter in " + kind);
    }

    /** Makes ThreadLocalRandom draw what is written into {@code drawn} from here on. */
    private static void predict(long seed, ArrayNode drawn) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        long where = unsafe.objectFieldOffset(Thread.class.getDeclaredField("threadLocalRandomSeed"));
        unsafe.putLong(Thread.currentThread(), where, seed);
        for (int i = 0; i < NUMBERS; i++) {
            drawn.add(random.nextInt());
        }
        unsafe.putLong(Thread.currentThread(), where, seed);
    }
}
