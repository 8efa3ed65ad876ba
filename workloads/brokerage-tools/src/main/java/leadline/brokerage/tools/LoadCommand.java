package leadline.brokerage.tools;

import java.sql.Connection;
import java.util.concurrent.Callable;
import leadline.brokerage.data.Loader;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** {@code load}: schema and data, whatever was there before. */
@Command(
        name = "load",
        description = "Drop the tables, create them, fill them with seeded data.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class LoadCommand implements Callable<Integer> {
    @Mixin
    private DatabaseOptions database;

    @Mixin
    private ScaleOptions data;

    @Override
    public Integer call() throws Exception {
        try (Connection connection = database.open()) {
            Loader.load(connection, data.scale(), data.seed());
        }
        System.out.println(
                data.scale().accounts() + " accounts, " + data.scale().instruments() + " instruments loaded");
        return 0;
    }
}
