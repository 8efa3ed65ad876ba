package leadline.dealership.check;

import java.util.Map;
import leadline.common.DriverCount;
import leadline.dealership.data.Scale;

/**
 * What the audits compare the data with.
 *
 * @param counts by transaction over the whole run; one that is missing counts as never made
 * @param supplier null without a supplier to ask
 * @param load null leaves the rates out
 */
public record Inputs(Scale scale, long seed, Map<String, DriverCount> counts, SupplierCount supplier, Load load) {
    public DriverCount count(String transaction) {
        return counts.getOrDefault(transaction, new DriverCount(0, 0));
    }

    /** How often it was asked for. */
    public long asked(String... transactions) {
        long sum = 0;
        for (String transaction : transactions) {
            sum += count(transaction).asked();
        }
        return sum;
    }
}
