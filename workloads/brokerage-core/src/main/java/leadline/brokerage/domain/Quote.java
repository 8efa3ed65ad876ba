package leadline.brokerage.domain;

/**
 * An instrument as the market sees it; amounts in cents.
 *
 * @param changeBp change against the opening price, basis points
 * @param volume shares traded
 * @param trades number of trades; names this price in an order
 */
public record Quote(
        String symbol,
        String company,
        long openPrice,
        long price,
        long low,
        long high,
        int changeBp,
        long volume,
        long trades) {}
