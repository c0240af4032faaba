package io.partage.assignors.core;

/**
 * The work that a search may still do, counted in visited arcs of a flow network.
 *
 * <p>It is counted and not timed, so that equal problems end equally on every machine.
 */
final class WorkBudget {
    /** The default limit for one network: about one second. */
    static final long MOST_WORK = 150_000_000L;

    private final long whole;
    private long left;

    WorkBudget(long whole) {
        this.whole = whole;
        this.left = whole;
    }

    /** Subtracts visited arcs. Throws {@link WorkLimitException} if none are left. */
    void spend(long arcs) {
        left -= arcs;
        if (left < 0) {
            throw new WorkLimitException("the exact answer needs more than " + whole + " steps of searching");
        }
    }
}
