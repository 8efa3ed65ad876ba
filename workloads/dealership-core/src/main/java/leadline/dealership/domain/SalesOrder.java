package leadline.dealership.domain;

import java.time.LocalDateTime;
import java.util.List;

/**
 * An order or a sale.
 *
 * @param total cents
 * @param command the name its sender gave it, null if none
 * @param closedAt null while it is not closed
 */
public record SalesOrder(
        long id,
        long dealer,
        OrderKind kind,
        boolean large,
        OrderStatus status,
        long total,
        String command,
        LocalDateTime createdAt,
        LocalDateTime closedAt,
        List<OrderLine> lines) {}
