package leadline.brokerage.domain;

/**
 * The price of an instrument: a function of its symbol and of the number of trades made in it, so that no interleaving
 * of trades can change where prices end. Two triangle waves around a base price, integer arithmetic only.
 */
public final class PriceRule {
    /** Trades after which prices repeat: a multiple of both waves. */
    public static final long PERIOD = 6_800;

    private static final long LOWEST_BASE = 1_000;
    private static final long BASES = 19_000;

    private PriceRule() {}

    /**
     * Price in cents after {@code trades} trades.
     *
     * @param trades zero or more; zero gives the opening price
     */
    public static long price(String symbol, long trades) {
        long hash = hash(symbol);
        long base = LOWEST_BASE + hash % BASES;
        long slow = wave(trades + hash % 389, 400) - 100;
        long fast = wave(trades + hash % 31, 34) - 8;
        return base * (1_000 + slow + fast) / 1_000;
    }

    /** Change against the opening price in basis points. */
    public static int changeBasisPoints(long price, long openPrice) {
        return (int) ((price - openPrice) * 10_000 / openPrice);
    }

    /** 0 up to period/2 and back again. */
    private static long wave(long x, long period) {
        long at = x % period;
        return Math.min(at, period - at);
    }

    /** FNV-1a, 32 bits, of the symbol's characters. */
    private static long hash(String symbol) {
        int h = 0x811c9dc5;
        for (int i = 0; i < symbol.length(); i++) {
            h = (h ^ symbol.charAt(i)) * 0x01000193;
        }
        return h & 0xffffffffL;
    }
}
