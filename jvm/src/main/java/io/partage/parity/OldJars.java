package io.partage.parity;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Producers of earlier releases, each behind a class loader of its own: their classes share names. */
final class OldJars {
    private static final Map<String, OldJars> OPENED = new HashMap<>();

    private final ClassLoader loader;

    private OldJars(ClassLoader loader) {
        this.loader = loader;
    }

    /** The jars in {@code target/old/<release>}, and what they all need beside them. */
    static OldJars of(Path old, String release) throws Exception {
        OldJars opened = OPENED.get(release);
        if (opened == null) {
            List<URL> jars = new ArrayList<>();
            add(jars, old.resolve(release));
            add(jars, old.resolve("common"));
            opened = new OldJars(
                new URLClassLoader(jars.toArray(URL[]::new), ClassLoader.getPlatformClassLoader()));
            OPENED.put(release, opened);
        }
        return opened;
    }

    private static void add(List<URL> jars, Path folder) throws Exception {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, "*.jar")) {
            for (Path jar : found) {
                jars.add(url(jar));
            }
        }
    }

    private static URL url(Path jar) throws MalformedURLException {
        return jar.toUri().toURL();
    }

    Class<?> named(String name) throws ClassNotFoundException {
        return Class.forName(name, true, loader);
    }

    /** A cluster of these jars: topic to partitions [number, has a leader], in the order given. */
    Object cluster(JsonNode topics) throws Exception {
        Class<?> nodeClass = named("org.apache.kafka.common.Node");
        Object node = nodeClass.getConstructor(int.class, String.class, int.class).newInstance(1, "h", 9092);
        Object none = Array.newInstance(nodeClass, 0);
        Constructor<?> info = named("org.apache.kafka.common.PartitionInfo").getConstructor(
            String.class, int.class, nodeClass, none.getClass(), none.getClass());
        List<Object> infos = new ArrayList<>();
        for (Map.Entry<String, JsonNode> topic : topics.properties()) {
            for (JsonNode one : topic.getValue()) {
                Object leader = one.get(1).asBoolean() ? node : null;
                infos.add(info.newInstance(topic.getKey(), one.get(0).asInt(), leader, none, none));
            }
        }
        Collection<Object> nodes = new ArrayList<>(List.of(node));
        for (Constructor<?> made : named("org.apache.kafka.common.Cluster").getConstructors()) {
            Class<?>[] types = made.getParameterTypes();
            if (types.length == 2) { // 0.8.2.2
                return made.newInstance(nodes, infos);
            }
            if (types.length == 3 && types[0] != String.class) { // 0.9
                return made.newInstance(nodes, infos, Collections.emptySet());
            }
            if (types.length == 5 && types[0] == String.class && types[4] != nodeClass) {
                return made.newInstance("c", nodes, infos, Collections.emptySet(), Collections.emptySet());
            }
        }
        throw new IllegalStateException("no constructor of Cluster that we know");
    }
}
