package leadline.dealership.domain;

import java.util.List;

/**
 * A work order and its purchase orders, oldest first.
 */
public record WorkStatus(WorkOrder work, List<PurchaseOrder> purchaseOrders) {
    /** Whether ordered parts have not come yet. */
    public boolean waiting() {
        return purchaseOrders.stream().anyMatch(order -> order.status() == PurchaseStatus.SENT);
    }
}
