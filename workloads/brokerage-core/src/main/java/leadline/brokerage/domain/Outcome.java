package leadline.brokerage.domain;

/** What became of a queued order. */
public enum Outcome {
    FILLED,
    /** It could not be done, as the answer would have said: no funds, sold before. */
    REJECTED,
    /** Delivered before: nothing was done. */
    REPEATED,
    /** Given up after too many failed deliveries. */
    DEAD
}
