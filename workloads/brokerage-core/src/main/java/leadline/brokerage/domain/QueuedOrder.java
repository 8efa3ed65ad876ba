package leadline.brokerage.domain;

/**
 * An order that was accepted and is to be filled later, once.
 *
 * @param buy what to buy, null for a sale
 * @param sell what to sell, null for a purchase
 * @param acceptedAt microseconds of Unix time
 */
public record QueuedOrder(long account, BuyCommand buy, SellCommand sell, long acceptedAt) {
    public Side side() {
        return buy == null ? Side.SELL : Side.BUY;
    }

    /** Its name within the account; never null. */
    public String command() {
        return buy == null ? sell.command() : buy.command();
    }
}
