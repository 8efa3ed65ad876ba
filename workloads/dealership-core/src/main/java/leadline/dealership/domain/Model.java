package leadline.dealership.domain;

/**
 * A vehicle in the catalogue.
 *
 * @param price for dealers, cents
 * @param available finished vehicles in stock now
 */
public record Model(String id, String name, String description, long price, int available) {}
