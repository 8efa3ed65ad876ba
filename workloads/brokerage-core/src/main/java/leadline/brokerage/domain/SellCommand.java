package leadline.brokerage.domain;

/**
 * An accepted wish to sell a holding.
 *
 * @param holding its id; null when {@code boughtBy} names it
 * @param boughtBy command of the order that bought it; null when {@code holding} names it
 * @param quote names the price it fills at; null for the price now
 * @param command a name that makes a repetition harmless; null if none
 */
public record SellCommand(Long holding, String boughtBy, Long quote, String command) {}
