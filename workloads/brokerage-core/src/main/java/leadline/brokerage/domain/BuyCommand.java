package leadline.brokerage.domain;

/**
 * An accepted wish to buy.
 *
 * @param quote names the price it fills at; null for the price now
 * @param command a name that makes a repetition harmless; null if none
 */
public record BuyCommand(String symbol, int quantity, Long quote, String command) {}
