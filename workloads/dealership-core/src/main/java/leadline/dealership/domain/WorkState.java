package leadline.dealership.domain;

/**
 * Where a work order is. PLANNED ones run from stage 1 on; LARGE ones run from the claim on.
 */
public enum WorkState {
    SCHEDULED,
    RUNNING,
    COMPLETED,
    CANCELLED;

    public boolean closed() {
        return this == COMPLETED || this == CANCELLED;
    }
}
