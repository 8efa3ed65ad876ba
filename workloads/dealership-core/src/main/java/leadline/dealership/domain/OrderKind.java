package leadline.dealership.domain;

/** ORDER: a dealer buys from the plant. SALE: a dealer sells to a customer. */
public enum OrderKind {
    ORDER,
    SALE
}
