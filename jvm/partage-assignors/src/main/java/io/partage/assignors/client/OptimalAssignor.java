package io.partage.assignors.client;

import io.partage.assignors.core.CountBalance;
import io.partage.assignors.core.GroupProblem;
import io.partage.assignors.core.WorkLimitException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Partage's optimal assignor in a Java consumer of the classic protocol: most even loads, fewest rack
 * mismatches, fewest moves.
 *
 * <p>It runs in a group with Python members of Partage's {@code optimal}: any of them may lead. It is
 * cooperative: partitions that move have no owner in this rebalance, and the follow-up rebalance
 * assigns them. Weights and a limit of moves exist in Python only.
 *
 * <p>Setting in the consumer's configuration: {@value #RACKS} (true), whether racks matter.
 */
public final class OptimalAssignor implements ConsumerPartitionAssignor, Configurable {
    public static final String NAME = "optimal";
    static final String RACKS = "assignment.optimal.racks";

    private static final Logger LOG = LoggerFactory.getLogger(OptimalAssignor.class);

    private boolean useRacks = true;
    private boolean hasWarned;

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public List<RebalanceProtocol> supportedProtocols() {
        return List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER);
    }

    @Override
    public void configure(Map<String, ?> configs) {
        Object racks = configs.get(RACKS);
        useRacks = racks == null || !racks.toString().trim().equalsIgnoreCase("false");
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
        ClientGroup group = new ClientGroup(metadata, groupSubscription.groupSubscription());
        Claims claims = new Claims(group);
        if (claims.hasLoads && !hasWarned) {
            hasWarned = true;
            LOG.warn("Members of this group measure loads. This leader balances numbers of partitions.");
        }
        String[] racks = useRacks ? group.racksOfMembers() : null;
        GroupProblem problem = new GroupProblem(
            group.counts, group.subscription, group.topicsOf, claims.place, claims.row,
            claims.generation, racks, racks == null ? null : group.racksOfRows());
        int[] owner;
        try {
            owner = CountBalance.assign(problem, 0);
        } catch (WorkLimitException e) {
            LOG.warn("{}. CooperativeStickyAssignor assigns this group.", e.getMessage());
            return new CooperativeStickyAssignor().assign(metadata, groupSubscription);
        }
        return planned(group, claims, owner);
    }

    /** Returns the plan of the first phase: partitions that move and are not revoked have no owner. */
    private static GroupAssignment planned(ClientGroup group, Claims claims, int[] owner) {
        boolean[] elsewhere = new boolean[owner.length];
        boolean[] already = new boolean[owner.length];
        for (int i = 0; i < claims.row.length; i++) {
            int row = claims.row[i];
            boolean stays = owner[row] == claims.place[i];
            already[row] |= stays;
            elsewhere[row] |= !stays;
        }
        List<Integer> order = new ArrayList<>();
        List<Integer> behind = new ArrayList<>();
        int[] now = owner.clone();
        for (int row = 0; row < owner.length; row++) {
            if (!elsewhere[row] || already[row]) {
                order.add(row);
            } else if (claims.revoked.contains(row)) {
                behind.add(row);
            } else {
                now[row] = -1;
            }
        }
        order.addAll(behind);
        int[] rows = order.stream().mapToInt(Integer::intValue).toArray();
        return group.assignment(rows, now, any -> Trailer.empty());
    }

    /** The partitions that members say they own, without claims that cannot be true. */
    private static final class Claims {
        final int[] generation;
        final int[] place;
        final int[] row;
        /** Rows whose owners have revoked them before they joined. */
        final Set<Integer> revoked = new HashSet<>();
        boolean hasLoads;

        Claims(ClientGroup group) {
            generation = new int[group.members.length];
            int[] places = new int[16];
            int[] rows = new int[16];
            int size = 0;
            for (int m = 0; m < generation.length; m++) {
                Subscription sent = group.subscriptions[m];
                List<TopicPartition> owned = sent.ownedPartitions();
                generation[m] = sent.generationId().orElse(-1);
                Trailer trailer = Trailer.of(sent.userData());
                boolean isRevoked = false;
                if (trailer != null) {
                    hasLoads |= trailer.hasLoads;
                    if (owned.isEmpty() && !trailer.claims.isEmpty()) {
                        owned = trailer.claims;
                        generation[m] = trailer.generation;
                        isRevoked = true;
                    }
                }
                if (owned.stream().anyMatch(group::isFalse)) {
                    LOG.warn("{} claims a partition that does not exist: it is taken for a newcomer.",
                        group.members[m].id);
                    generation[m] = -1;
                    continue;
                }
                for (TopicPartition one : owned) {
                    int at = group.row(one);
                    if (at < 0) {
                        continue;
                    }
                    if (size == places.length) {
                        places = Arrays.copyOf(places, 2 * size);
                        rows = Arrays.copyOf(rows, 2 * size);
                    }
                    places[size] = m;
                    rows[size++] = at;
                    if (isRevoked) {
                        revoked.add(at);
                    }
                }
            }
            place = Arrays.copyOf(places, size);
            row = Arrays.copyOf(rows, size);
        }
    }
}
