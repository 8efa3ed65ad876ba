package leadline.dealership.tools;

import leadline.dealership.data.Scale;
import picocli.CommandLine.Option;

/** Which data. */
final class ScaleOptions {
    @Option(names = "--units", required = true, description = "units of the injection rate the data is enough for")
    private int units;

    @Option(names = "--seed", required = true, description = "seed of the generator")
    private long seed;

    Scale scale() {
        return Scale.of(units);
    }

    long seed() {
        return seed;
    }
}
