package leadline.dealership.domain;

/** PLANNED for the stock, or LARGE for a line of a large order. */
public enum WorkKind {
    PLANNED,
    LARGE
}
