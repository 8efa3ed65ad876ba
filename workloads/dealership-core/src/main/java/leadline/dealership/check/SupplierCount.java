package leadline.dealership.check;

/**
 * What the supplier counted of purchase orders.
 *
 * @param received different ones received
 * @param delivered delivered and acknowledged
 * @param pending to be delivered
 * @param failed given up
 */
public record SupplierCount(long received, long delivered, long pending, long failed) {}
