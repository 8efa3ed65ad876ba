package leadline.brokerage.tools;

import leadline.brokerage.data.Scale;
import picocli.CommandLine.Option;

/** Which data. */
final class ScaleOptions {
    @Option(names = "--units", required = true, description = "load units")
    private int units;

    @Option(names = "--seed", required = true, description = "seed of the generator")
    private long seed;

    @Option(names = "--accounts-per-unit", description = "default ${DEFAULT-VALUE}")
    private int accountsPerUnit = Scale.ACCOUNTS_PER_UNIT;

    @Option(names = "--holdings", description = "lots of every account, default ${DEFAULT-VALUE}")
    private int holdings = Scale.HOLDINGS_PER_ACCOUNT;

    Scale scale() {
        return Scale.of(units, accountsPerUnit, holdings);
    }

    long seed() {
        return seed;
    }
}
