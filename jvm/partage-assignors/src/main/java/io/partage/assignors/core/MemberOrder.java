package io.partage.assignors.core;

import java.util.Comparator;

/** A member's ids. Members are sorted: static ones by instance id, then the others by member id. */
public final class MemberOrder implements Comparable<MemberOrder> {
    private static final Comparator<MemberOrder> ORDER = Comparator
        .comparing((MemberOrder one) -> one.instance, Comparator.nullsLast(Comparator.naturalOrder()))
        .thenComparing(one -> one.id);

    public final String id;
    /** Null for a dynamic member. */
    public final String instance;

    public MemberOrder(String id, String instance) {
        this.id = id;
        this.instance = instance;
    }

    @Override
    public int compareTo(MemberOrder other) {
        return ORDER.compare(this, other);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof MemberOrder && compareTo((MemberOrder) other) == 0;
    }

    @Override
    public int hashCode() {
        return id.hashCode();
    }
}
