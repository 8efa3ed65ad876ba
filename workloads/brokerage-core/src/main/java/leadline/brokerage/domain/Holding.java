package leadline.brokerage.domain;

/**
 * A lot of shares, bought in one order and sold in one.
 *
 * @param id the order that bought it
 * @param purchasePrice cents a share
 * @param price cents a share now
 * @param trades names the price now in an order
 */
public record Holding(long id, String symbol, int quantity, long purchasePrice, long price, long trades) {
    public long value() {
        return quantity * price;
    }

    public long gain() {
        return quantity * (price - purchasePrice);
    }
}
