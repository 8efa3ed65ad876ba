package leadline.brokerage.data;

/**
 * How much data there is.
 *
 * @param units load units, 1 or more
 * @param accounts number of generated accounts
 * @param instruments number of instruments
 * @param holdings lots of every generated account
 */
public record Scale(int units, long accounts, int instruments, int holdings) {
    public static final int ACCOUNTS_PER_UNIT = 200;
    public static final int HOLDINGS_PER_ACCOUNT = 5;
    private static final int FEWEST_INSTRUMENTS = 500;
    private static final int INSTRUMENTS_PER_UNIT = 20;
    private static final int MOST_UNITS = 4_000;

    public Scale {
        if (units < 1 || units > MOST_UNITS) {
            throw new IllegalArgumentException("units must be 1 to " + MOST_UNITS + ", got " + units);
        }
        if (accounts < 1 || instruments < 1 || instruments > 99_999 || holdings < 0) {
            throw new IllegalArgumentException(
                    "accounts must be 1 or more, instruments 1 to 99999, holdings 0 or more; got " + accounts + ", "
                            + instruments + ", " + holdings);
        }
    }

    /** Number of generated orders. */
    public long orders() {
        return accounts * holdings;
    }

    public static Scale of(int units) {
        return of(units, ACCOUNTS_PER_UNIT, HOLDINGS_PER_ACCOUNT);
    }

    public static Scale of(int units, int accountsPerUnit, int holdings) {
        return new Scale(
                units,
                (long) units * accountsPerUnit,
                Math.max(FEWEST_INSTRUMENTS, INSTRUMENTS_PER_UNIT * units),
                holdings);
    }
}
