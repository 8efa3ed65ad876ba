package leadline.dealership.domain;

/**
 * A work order after an advance.
 *
 * @param ordered the purchase order made for missing parts, to be posted to the supplier; null if none was made
 */
public record Advance(WorkOrder work, PurchaseOrder ordered) {}
