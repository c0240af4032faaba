package io.partage.assignors.core;

/** Thrown if the exact plan of a group needs more work or memory than the limit allows. */
public final class WorkLimitException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    WorkLimitException(String message) {
        super(message);
    }
}
