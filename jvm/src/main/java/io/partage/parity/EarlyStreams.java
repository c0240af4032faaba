package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;

/**
 * The task assignors of Kafka Streams 0.10.2 and 0.11, each release in a class loader of its own.
 *
 * <p>Argument: the folder with the release's jars (and slf4j). A request is a problem of
 * tests/data/vectors/streams; the answer has {@code a} as there, and {@code turns}: per client its
 * actives, then its standbys, each in the order in which its own set is walked.
 */
public final class EarlyStreams {
    private static final String HERE = "org.apache.kafka.streams.processor.internals.assignment.";

    private final ClassLoader release;
    private final Class<?> taskId;
    private final Class<?> clientState;
    private final boolean sticky;

    private EarlyStreams(Path folder, Path shared) throws IOException, ReflectiveOperationException {
        List<URL> jars = new ArrayList<>(jars(folder, "*.jar"));
        jars.addAll(jars(shared, "slf4j-api-*.jar"));
        release = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        taskId = release.loadClass("org.apache.kafka.streams.processor.TaskId");
        clientState = release.loadClass(HERE + "ClientState");
        sticky = release.getResource(HERE.replace('.', '/') + "StickyTaskAssignor.class") != null;
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        EarlyStreams early = new EarlyStreams(Path.of(args[0]), Path.of(args[1]));
        JsonLines.serve(early::answer);
    }

    private static List<URL> jars(Path folder, String names) throws IOException {
        List<URL> found = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, names)) {
            for (Path file : files) {
                found.add(url(file));
            }
        }
        return found;
    }

    private static URL url(Path file) throws MalformedURLException {
        return file.toUri().toURL();
    }

    private JsonNode answer(JsonNode request) throws Exception {
        Set<Object> tasks = tasks(request.get("all"), new HashSet<>());
        Map<UUID, Object> clients = new HashMap<>();
        for (JsonNode client : request.get("clients")) {
            clients.put(process(client), client(client));
        }
        int standbys = request.get("cfg").get("nst").asInt();
        try {
            if (sticky) {
                Class<?> kind = release.loadClass(HERE + "StickyTaskAssignor");
                Constructor<?> made = kind.getDeclaredConstructor(Map.class, Set.class);
                method(kind, "assign", int.class).invoke(made.newInstance(clients, tasks), standbys);
            } else {
                method(release.loadClass(HERE + "TaskAssignor"), "assign", Map.class, Set.class, int.class)
                    .invoke(null, clients, tasks, standbys);
            }
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause() instanceof Exception cause ? cause : thrown;
        }
        ObjectNode answer = JsonLines.JSON.createObjectNode();
        ArrayNode roles = answer.putArray("a");
        ArrayNode turns = answer.putArray("turns");
        for (JsonNode client : request.get("clients")) {
            Object state = clients.get(process(client));
            ArrayNode its = roles.addArray();
            ArrayNode turn = turns.addArray();
            for (String role : List.of("activeTasks", "standbyTasks")) {
                Set<?> held = (Set<?>) field(role).get(state);
                ArrayNode sorted = its.addArray();
                new TreeSet<>(held).forEach(task -> sorted.add(task.toString()));
                held.forEach(task -> turn.add(task.toString()));
            }
        }
        return answer;
    }

    private static UUID process(JsonNode client) {
        return new UUID(client.get("msb").asLong(), client.get("lsb").asLong());
    }

    @SuppressWarnings("unchecked")
    private Object client(JsonNode client) throws ReflectiveOperationException {
        Object state = clientState.getDeclaredConstructor().newInstance();
        if (sticky) {
            for (int thread = client.get("cap").asInt(); thread > 0; thread--) {
                method(clientState, "incrementCapacity").invoke(state);
            }
            method(clientState, "addPreviousActiveTasks", Set.class)
                .invoke(state, tasks(client.get("pa"), new LinkedHashSet<>()));
            method(clientState, "addPreviousStandbyTasks", Set.class)
                .invoke(state, tasks(client.get("ps"), new LinkedHashSet<>()));
        } else {
            field("capacity").setDouble(state, client.get("cap").asDouble());
            tasks(client.get("pa"), (Set<Object>) field("prevActiveTasks").get(state));
            tasks(client.get("pa"), (Set<Object>) field("prevAssignedTasks").get(state));
            tasks(client.get("ps"), (Set<Object>) field("prevAssignedTasks").get(state));
        }
        return state;
    }

    private Set<Object> tasks(JsonNode names, Set<Object> into) throws ReflectiveOperationException {
        Method parse = method(taskId, "parse", String.class);
        for (JsonNode name : names) {
            into.add(parse.invoke(null, name.asText()));
        }
        return into;
    }

    private Field field(String name) throws NoSuchFieldException {
        Field field = clientState.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Method method(Class<?> of, String name, Class<?>... kinds) throws NoSuchMethodException {
        Method method = of.getDeclaredMethod(name, kinds);
        method.setAccessible(true);
        return method;
    }
}
