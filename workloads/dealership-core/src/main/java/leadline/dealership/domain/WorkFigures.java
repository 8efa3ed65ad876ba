package leadline.dealership.domain;

/**
 * How many work orders and purchase orders there are.
 *
 * @param unclaimed LARGE work orders that nobody claimed
 * @param sent purchase orders not yet delivered
 * @param repeatedDeliveries deliveries that came again
 */
public record WorkFigures(
        long scheduled,
        long running,
        long completed,
        long cancelled,
        long unclaimed,
        long sent,
        long delivered,
        long repeatedDeliveries) {}
