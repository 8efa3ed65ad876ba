package leadline.dealership.data;

/**
 * How much data there is.
 *
 * @param units units of the injection rate the data is enough for, 1 or more
 * @param dealers number of dealers
 * @param models number of models
 * @param parts number of parts
 * @param suppliers number of suppliers
 */
public record Scale(int units, long dealers, int models, int parts, int suppliers) {
    public static final int DEALERS_PER_UNIT = 100;
    private static final int MODELS_PER_UNIT = 10;
    private static final int PARTS_PER_UNIT = 50;
    private static final int FEWEST_MODELS = 50;
    private static final int FEWEST_PARTS = 250;
    private static final int FEWEST_SUPPLIERS = 10;
    private static final int MOST_UNITS = 1_000;

    public Scale {
        if (units < 1 || units > MOST_UNITS) {
            throw new IllegalArgumentException("units must be 1 to " + MOST_UNITS + ", got " + units);
        }
    }

    public static Scale of(int units) {
        return new Scale(
                units,
                (long) units * DEALERS_PER_UNIT,
                Math.max(FEWEST_MODELS, units * MODELS_PER_UNIT),
                Math.max(FEWEST_PARTS, units * PARTS_PER_UNIT),
                Math.max(FEWEST_SUPPLIERS, units));
    }
}
