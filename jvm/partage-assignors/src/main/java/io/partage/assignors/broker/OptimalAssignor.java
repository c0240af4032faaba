package io.partage.assignors.broker;

import io.partage.assignors.core.CountBalance;
import io.partage.assignors.core.RackSets;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * Partage's optimal assignor in the group coordinator: most even loads, fewest rack mismatches, fewest
 * moves.
 *
 * <p>The objective, each line before the next: every partition with subscribers has one owner; the
 * most even numbers of partitions (least-majorised); the fewest partitions without a replica on their
 * member's rack; the fewest moves; each topic spread evenly over its subscribers. The order of
 * members in the request has no influence.
 *
 * <p>Settings in the broker's configuration:
 * {@value #RACKS} (true): whether racks matter.
 * {@value #WORK}: most arcs of a flow network that one plan may visit (150,000,000, about one second).
 * A group that needs more is assigned by Kafka's uniform assignor, and the broker's log says so.
 */
public final class OptimalAssignor extends BrokerAssignor implements Configurable {
    public static final String NAME = "partage-optimal";
    static final String RACKS = "assignment.optimal.racks";
    static final String WORK = "assignment.optimal.work.limit";

    private boolean useRacks = true;
    private long mostWork;

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public void configure(Map<String, ?> config) {
        Object racks = config.get(RACKS);
        if (racks != null) {
            useRacks = Settings.flag(RACKS, racks);
        }
        Object work = config.get(WORK);
        if (work != null) {
            mostWork = positive(work);
        }
    }

    @Override
    GroupAssignment plan(BrokerGroup group) {
        String[] rackOf = useRacks ? group.racksOfMembers() : null;
        RackSets racks = rackOf == null ? null : group.racksOfRows();
        GroupAssignment found = racks == null || racks.isEmpty() ? ChangedTargets.assignment(group) : null;
        return found != null ? found
            : group.assignment(CountBalance.assign(group.problem(rackOf, racks), mostWork));
    }

    private static long positive(Object value) {
        try {
            long number = Long.parseLong(value.toString().trim());
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // The exception below says what is wrong.
        }
        throw new ConfigException(WORK, value, "must be a positive number of arcs");
    }
}
