package leadline.dealership.domain;

/**
 * A wish to sell.
 *
 * @param command a name within the dealer that makes a repetition harmless; null if none
 */
public record SellCommand(String command, String model, int quantity) {}
