package io.partage.assignors.core;

/** A member's ids. Members are sorted: static ones by instance id, then the others by member id. */
public final class MemberOrder implements Comparable<MemberOrder> {
    public final String id;
    /** Null for a dynamic member. */
    public final String instance;

    public MemberOrder(String id, String instance) {
        this.id = id;
        this.instance = instance;
    }

    @Override
    public int compareTo(MemberOrder other) {
        if (instance == null || other.instance == null) {
            if (instance != null || other.instance != null) {
                return instance == null ? 1 : -1;
            }
        } else if (!instance.equals(other.instance)) {
            return instance.compareTo(other.instance);
        }
        return id.compareTo(other.id);
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
