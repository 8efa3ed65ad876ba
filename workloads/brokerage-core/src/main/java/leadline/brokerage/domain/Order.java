package leadline.brokerage.domain;

import java.time.LocalDateTime;

/**
 * An order; amounts in cents.
 *
 * @param command the name its sender gave it, null if none
 */
public record Order(
        long id,
        Side side,
        String symbol,
        int quantity,
        long price,
        long fee,
        String status,
        LocalDateTime openedAt,
        String command) {}
