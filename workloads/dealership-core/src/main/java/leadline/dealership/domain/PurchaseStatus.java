package leadline.dealership.domain;

/** SENT until the parts came. */
public enum PurchaseStatus {
    SENT,
    DELIVERED
}
