package io.partage.assignors.broker;

import io.partage.assignors.core.GroupProblem;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * The priority failover assignor in the group coordinator: each topic goes to the subscriber with the
 * highest priority.
 *
 * <p>A coordinator knows no user data, so priorities stand in the broker's configuration, by instance
 * id: {@value #PRIORITIES} is a list such as {@code payments-1:10,payments-2:5}. Members that are not
 * in it rank below all others. Equal priorities: the lowest member id is ranked higher.
 */
public final class FailoverAssignor extends BrokerAssignor implements Configurable {
    public static final String NAME = "partage-failover";
    static final String PRIORITIES = "assignment.failover.priorities";
    /** The priority of a member that the setting does not name, below every int. */
    private static final long UNNAMED = Integer.MIN_VALUE - 1L;

    private final Map<String, Integer> priorities = new HashMap<>();

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public void configure(Map<String, ?> config) {
        Object value = config.get(PRIORITIES);
        if (value == null || value.toString().trim().isEmpty()) {
            return;
        }
        for (String one : value.toString().split(",", -1)) {
            int colon = one.lastIndexOf(':');
            try {
                if (colon <= 0) {
                    throw new NumberFormatException();
                }
                int priority = Integer.parseInt(one.substring(colon + 1).trim());
                priorities.put(one.substring(0, colon).trim(), priority);
            } catch (NumberFormatException e) {
                throw new ConfigException(PRIORITIES, value, "must be a list of INSTANCE_ID:INT32");
            }
        }
    }

    @Override
    GroupAssignment plan(BrokerGroup group) {
        int[] best = new int[group.counts.length];
        Arrays.fill(best, -1);
        for (int m = 0; m < group.members.length; m++) {
            for (int t : group.topicsOf[group.subscription[m]]) {
                if (best[t] < 0 || outranks(group, m, best[t])) {
                    best[t] = m;
                }
            }
        }
        int[] first = GroupProblem.firstRows(group.counts);
        int[] owner = new int[first[best.length]];
        for (int t = 0; t < best.length; t++) {
            Arrays.fill(owner, first[t], first[t + 1], best[t]);
        }
        return group.assignment(owner);
    }

    private boolean outranks(BrokerGroup group, int one, int other) {
        int order = Long.compare(priority(group.members[one].instance), priority(group.members[other].instance));
        return order > 0 || order == 0 && group.members[one].id.compareTo(group.members[other].id) < 0;
    }

    private long priority(String instance) {
        Integer own = instance == null ? null : priorities.get(instance);
        return own == null ? UNNAMED : own;
    }
}
