package leadline.dealership.domain;

/**
 * Vehicles of one model that a dealer owns.
 *
 * @param price at which dealers buy it, cents
 */
public record StockLine(String model, String name, int quantity, long price) {}
