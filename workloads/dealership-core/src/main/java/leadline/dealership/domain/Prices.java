package leadline.dealership.domain;

/** Rules of prices, in whole cents. */
public final class Prices {
    private Prices() {}

    /** What a customer pays a dealer: a tenth more than the dealer pays. */
    public static long retail(long price) {
        return price + price / 10;
    }
}
