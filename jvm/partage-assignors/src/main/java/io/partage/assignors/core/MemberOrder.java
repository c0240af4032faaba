package io.partage.assignors.core;

import java.util.Arrays;

/** A member's ids. Members are sorted: static ones by instance id, then the others by member id. */
public class MemberOrder implements Comparable<MemberOrder> {
    /** Members that are sorted by comparisons: for so few, making numbers of their ids takes longer. */
    private static final int FEW = 8;
    /** Characters of an id in one number, 9 bits for each: 0 behind the end of the id. */
    private static final int CHARACTERS = 4;
    private static final int BITS = 9;
    /** Bits of a number that are a member's position. */
    private static final int POSITION_BITS = 24;

    public final String id;
    /** Null for a dynamic member. */
    public final String instance;

    public MemberOrder(String id, String instance) {
        this.id = id;
        this.instance = instance;
    }

    @Override
    public final int compareTo(MemberOrder other) {
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
    public final boolean equals(Object other) {
        return other instanceof MemberOrder && compareTo((MemberOrder) other) == 0;
    }

    @Override
    public final int hashCode() {
        return id.hashCode();
    }

    /** Sorts members with different member ids. */
    public static void sort(MemberOrder[] members) {
        MemberOrder[] given = members.clone();
        int size = 0;
        for (MemberOrder one : given) {
            if (one.instance != null) {
                members[size++] = one;
            }
        }
        int first = size;
        for (MemberOrder one : given) {
            if (one.instance == null) {
                members[size++] = one;
            }
        }
        Arrays.sort(members, 0, first);
        sortById(members, first, size, 0);
    }

    /**
     * Sorts dynamic members from {@code begin} to {@code end - 1}, whose ids have {@code equal} first
     * characters in common (radix sort, the most significant characters first).
     */
    private static void sortById(MemberOrder[] members, int begin, int end, int equal) {
        int from = end - begin <= FEW ? -1 : commonPrefix(members, begin, end, equal);
        long[] numbers = from < 0 ? null : numbers(members, begin, end, from);
        if (numbers == null) {
            Arrays.sort(members, begin, end);
            return;
        }
        Arrays.sort(numbers);
        MemberOrder[] given = Arrays.copyOfRange(members, begin, end);
        for (int i = 0; i < given.length; i++) {
            members[begin + i] = given[(int) (numbers[i] & (1L << POSITION_BITS) - 1)];
        }
        for (int first = 0, last; first < given.length; first = last) {
            last = first + 1;
            while (last < given.length && numbers[last] >> POSITION_BITS == numbers[first] >> POSITION_BITS) {
                last++;
            }
            if (last - first > 1) {
                sortById(members, begin + first, begin + last, from + CHARACTERS);
            }
        }
    }

    /** Returns the length of the longest common prefix of ids, given that it is {@code equal} at least. */
    private static int commonPrefix(MemberOrder[] members, int begin, int end, int equal) {
        String first = members[begin].id;
        int length = first.length();
        for (int m = begin + 1; m < end; m++) {
            String other = members[m].id;
            int most = Math.min(length, other.length());
            int same = Math.min(equal, most);
            while (same < most && first.charAt(same) == other.charAt(same)) {
                same++;
            }
            length = same;
        }
        return length;
    }

    /**
     * Returns for each member the characters of its id from {@code from} on, and its position behind
     * them, as one number; null if that is impossible.
     */
    private static long[] numbers(MemberOrder[] members, int begin, int end, int from) {
        if (end - begin >= 1 << POSITION_BITS) {
            return null;
        }
        long[] numbers = new long[end - begin];
        for (int i = 0; i < numbers.length; i++) {
            String id = members[begin + i].id;
            long number = 0;
            for (int at = from; at < from + CHARACTERS; at++) {
                int character = at < id.length() ? id.charAt(at) + 1 : 0;
                if (character >= 1 << BITS) {
                    return null;
                }
                number = number << BITS | character;
            }
            numbers[i] = number << POSITION_BITS | i;
        }
        return numbers;
    }
}
