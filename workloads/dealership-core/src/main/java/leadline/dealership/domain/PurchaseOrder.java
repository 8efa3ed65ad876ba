package leadline.dealership.domain;

import java.time.LocalDateTime;
import java.util.List;

/**
 * Parts ordered from a supplier.
 *
 * @param workOrder the work order that needs them
 * @param deliveredAt null while it is not delivered
 */
public record PurchaseOrder(
        long id,
        long supplier,
        long workOrder,
        PurchaseStatus status,
        LocalDateTime sentAt,
        LocalDateTime deliveredAt,
        List<PartLine> lines) {}
