package io.partage.assignors.client;

import io.partage.assignors.core.Ints;
import io.partage.assignors.core.MemberOrder;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The priority failover assignor in a Java consumer: each topic goes to the subscriber with the highest
 * priority. Equal priorities: the lowest member id is ranked higher.
 *
 * <p>It is byte-compatible with Python members of Partage's {@code failover} with preemption. Settings
 * of each consumer: {@value #PRIORITY} (an int, 2147483647 if not set), and the same key with
 * {@code .TOPIC} behind it for one topic.
 */
public final class FailoverAssignor implements ConsumerPartitionAssignor, Configurable {
    public static final String NAME = "failover";
    static final String PRIORITY = "assignment.consumer.priority";

    private static final Logger LOG = LoggerFactory.getLogger(FailoverAssignor.class);
    /** The text PFO1, which begins the priorities of single topics. */
    private static final int MARKER = 0x50464f31;
    /** The priority of a member whose user data cannot be read, below every int. */
    private static final long LOWEST = Integer.MIN_VALUE - 1L;

    private int priority = Integer.MAX_VALUE;
    private final TreeMap<String, Integer> byTopic = new TreeMap<>();

    /** The priorities of one member: for all topics, and its exceptions for single topics. */
    private static final class Priorities {
        long general = LOWEST;
        final Map<String, Integer> byTopic = new HashMap<>();

        long of(String topic) {
            Integer own = byTopic.get(topic);
            return own == null ? general : own;
        }
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public void configure(Map<String, ?> configs) {
        configs.forEach((key, value) -> {
            if (key.equals(PRIORITY)) {
                priority = number(key, value);
            } else if (key.startsWith(PRIORITY + ".")) {
                byTopic.put(key.substring(PRIORITY.length() + 1), number(key, value));
            }
        });
    }

    private static int number(String setting, Object value) {
        try {
            return Integer.parseInt(value.toString().trim());
        } catch (NumberFormatException e) {
            throw new ConfigException(setting, value, "must be an int32");
        }
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        if (byTopic.isEmpty()) {
            return ByteBuffer.allocate(Integer.BYTES).putInt(0, priority);
        }
        int size = 12;
        List<byte[]> names = new ArrayList<>();
        for (String topic : byTopic.keySet()) {
            names.add(topic.getBytes(StandardCharsets.UTF_8));
            size += 6 + names.get(names.size() - 1).length;
        }
        ByteBuffer out = ByteBuffer.allocate(size).putInt(priority).putInt(MARKER).putInt(byTopic.size());
        int next = 0;
        for (int own : byTopic.values()) {
            byte[] name = names.get(next++);
            out.putShort((short) name.length).put(name).putInt(own);
        }
        out.flip();
        return out;
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
        Map<String, Subscription> sent = groupSubscription.groupSubscription();
        ClientGroup group = new ClientGroup(metadata, sent);
        Priorities[] priorities = new Priorities[group.members.length];
        List<List<Integer>> subscribers = new ArrayList<>();
        for (int t = 0; t < group.topics.length; t++) {
            subscribers.add(new ArrayList<>());
        }
        for (int m = 0; m < priorities.length; m++) {
            priorities[m] = read(group.members[m], group.subscriptions[m].userData());
            for (int t : group.topicsOf[group.subscription[m]]) {
                subscribers.get(t).add(m);
            }
        }
        int[] owner = new int[group.firstRow[group.topics.length]];
        for (int t = 0; t < group.topics.length; t++) {
            String topic = group.topics[t];
            int best = -1;
            for (int m : subscribers.get(t)) {
                if (best < 0 || outranks(priorities, group.members, topic, m, best)) {
                    best = m;
                }
            }
            Arrays.fill(owner, group.firstRow[t], group.firstRow[t + 1], best);
        }
        return group.assignment(Ints.rowsOf(topicOrder(group, sent), group.firstRow), owner, any -> null);
    }

    private static boolean outranks(Priorities[] priorities, MemberOrder[] members, String topic, int one, int other) {
        int order = Long.compare(priorities[one].of(topic), priorities[other].of(topic));
        return order > 0 || order == 0 && members[one].id.compareTo(members[other].id) < 0;
    }

    /** Returns the topics in the iteration order of the maps of Kafka's AbstractPartitionAssignor. */
    private static int[] topicOrder(ClientGroup group, Map<String, Subscription> sent) {
        Set<String> names = new HashSet<>();
        sent.values().forEach(one -> names.addAll(one.topics()));
        Map<String, Integer> numbers = new HashMap<>();
        for (String name : names) {
            int topic = Arrays.binarySearch(group.topics, name);
            if (topic >= 0) {
                numbers.put(name, topic);
            }
        }
        return numbers.values().stream().mapToInt(Integer::intValue).toArray();
    }

    private static Priorities read(MemberOrder member, ByteBuffer userData) {
        Priorities out = new Priorities();
        if (userData == null) {
            LOG.warn("{} has no user data: it gets the lowest priority.", member.id);
            return out;
        }
        ByteBuffer data = userData.duplicate();
        if (data.remaining() == Integer.BYTES) {
            out.general = data.getInt();
        } else if (!readExtension(data, out)) {
            out.general = LOWEST;
            out.byTopic.clear();
            LOG.warn("{} has {} bytes of user data where 4 are due: it gets the lowest priority.",
                member.id, userData.remaining());
        }
        return out;
    }

    private static boolean readExtension(ByteBuffer data, Priorities out) {
        try {
            out.general = data.getInt();
            if (data.getInt() != MARKER) {
                return false;
            }
            for (int left = data.getInt(); left > 0; left--) {
                int length = data.getShort();
                if (length < 0 || length > data.remaining()) {
                    return false;
                }
                byte[] name = new byte[length];
                data.get(name);
                out.byTopic.put(new String(name, StandardCharsets.UTF_8), data.getInt());
            }
            return !data.hasRemaining();
        } catch (BufferUnderflowException tooShort) {
            return false;
        }
    }
}
