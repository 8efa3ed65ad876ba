package leadline.dealership.domain;

/**
 * What a delivery did.
 *
 * @param repeated true when its parts had come before and nothing was changed
 */
public record Delivery(long purchaseOrder, boolean repeated) {}
