package leadline.dealership.domain;

/**
 * A line of an order.
 *
 * @param line from 1
 * @param price of one vehicle, cents
 */
public record OrderLine(int line, String model, int quantity, long price) {}
