package leadline.dealership.domain;

import java.time.LocalDateTime;

/**
 * Vehicles of one model to be built.
 *
 * @param salesOrder the large order it is for, null for a PLANNED one
 * @param line of that order, null for a PLANNED one
 * @param stage 0 to {@link Dealership#LAST_STAGE}
 * @param completed vehicles that were finished
 * @param command the name its sender gave it, null if none
 * @param closedAt null while it is not closed
 */
public record WorkOrder(
        long id,
        WorkKind kind,
        Long salesOrder,
        Integer line,
        String model,
        int quantity,
        int stage,
        WorkState state,
        int completed,
        String command,
        LocalDateTime createdAt,
        LocalDateTime closedAt) {}
