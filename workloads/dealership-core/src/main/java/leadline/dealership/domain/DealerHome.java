package leadline.dealership.domain;

/**
 * The figures of the first page; amounts in cents.
 *
 * @param creditLimit how far the balance may fall below zero
 * @param openOrders orders that are OPEN or PRODUCING
 * @param models models of which the dealer owns a vehicle
 * @param vehicles vehicles the dealer owns
 */
public record DealerHome(
        String name,
        long openingBalance,
        long balance,
        long creditLimit,
        long logins,
        long openOrders,
        long models,
        long vehicles) {
    /** What an order may cost. */
    public long credit() {
        return balance + creditLimit;
    }
}
