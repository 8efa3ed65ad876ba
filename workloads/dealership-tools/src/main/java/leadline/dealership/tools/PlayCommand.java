package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import leadline.dealership.play.Player;
import leadline.dealership.play.Tally;
import leadline.dealership.sql.DirectDealership;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code play}: seeded transactions against the database, and the counts its audits need. */
@Command(
        name = "play",
        description =
                "Play seeded transactions of dealers, plant and supplier from many threads, also while the database restarts; for tests.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class PlayCommand implements Callable<Integer> {
    @Mixin
    private DatabaseOptions database;

    @Mixin
    private ScaleOptions data;

    @Option(names = "--threads", description = "default ${DEFAULT-VALUE}")
    private int threads = 4;

    @Option(names = "--rounds", required = true, description = "transactions of dealers in each thread")
    private int rounds;

    @Option(names = "--models", description = "models that are traded; few make orders wait; default all")
    private int models;

    @Option(names = "--counts", required = true, description = "file to write: what a driver would have counted")
    private Path counts;

    @Option(names = "--supplier", required = true, description = "file to write: what an emulator would have counted")
    private Path supplier;

    @Override
    public Integer call() throws Exception {
        if (threads < 1 || threads > 64) {
            throw new IllegalArgumentException("--threads must be 1 to 64, got " + threads);
        }
        int all = data.scale().models();
        if (models < 0 || models > all) {
            throw new IllegalArgumentException("--models must be 1 to " + all + ", got " + models);
        }
        List<Lasting> connections = new ArrayList<>();
        try {
            Tally tally = Player.play(
                    () -> dealership(connections),
                    threads,
                    rounds,
                    data.seed(),
                    data.scale().dealers(),
                    models == 0 ? all : models);
            write(tally);
        } finally {
            for (Lasting connection : connections) {
                connection.close();
            }
        }
        return 0;
    }

    private DirectDealership dealership(List<Lasting> connections) {
        Lasting connection = new Lasting(database);
        connections.add(connection);
        return new DirectDealership(connection.source());
    }

    private void write(Tally tally) throws Exception {
        Map<String, Object> made = new LinkedHashMap<>();
        tally.counts().forEach((name, count) -> made.put(name, Map.of("ok", count.ok(), "failed", count.failed())));
        Files.writeString(counts, JSON.std.asString(made));
        long received = tally.receivedOrders();
        long delivered = tally.deliveredOrders();
        Files.writeString(
                supplier,
                JSON.std.asString(Map.of(
                        "received", received, "delivered", delivered, "pending", received - delivered, "failed", 0)));
        System.out.println(JSON.std.asString(made));
    }
}
