package leadline.dealership.domain;

import java.util.List;

/**
 * A wish to buy; each model once.
 *
 * @param command a name within the dealer that makes a repetition harmless; null if none
 */
public record PurchaseCommand(String command, List<CartLine> lines) {}
