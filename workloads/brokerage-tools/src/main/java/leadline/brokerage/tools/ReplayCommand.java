package leadline.brokerage.tools;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.concurrent.Callable;
import leadline.brokerage.data.Generator;
import leadline.brokerage.data.Scale;
import leadline.brokerage.replay.BrokeragePlayer;
import leadline.brokerage.replay.CommandGenerator;
import leadline.brokerage.replay.Replay;
import leadline.brokerage.sql.DirectBrokerage;
import leadline.common.SingleConnection;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code replay}: plays a command log against the database or a running application. */
@Command(
        name = "replay",
        description = "Play a command log; users interleave as the threads happen to run.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class ReplayCommand implements Callable<Integer> {
    /** Exactly one of them. */
    static final class Target {
        @ArgGroup(exclusive = false)
        private DatabaseOptions database;

        @Option(names = "--http", required = true, description = "address of the application, with its context root")
        private String http;
    }

    /** Exactly one of them. */
    static final class Log {
        @Option(names = "--commands", required = true, description = "file with a command log")
        private Path file;

        @Option(
                names = "--generate",
                required = true,
                description = "number of commands to make up for the loaded data")
        private int count;
    }

    @ArgGroup(multiplicity = "1")
    private Target target;

    @ArgGroup(multiplicity = "1")
    private Log log;

    @Option(names = "--seed", description = "seed of a made-up log, default ${DEFAULT-VALUE}")
    private long seed = 1;

    @Option(names = "--threads", description = "default ${DEFAULT-VALUE}")
    private int threads = 1;

    @Override
    public Integer call() throws Exception {
        if (threads < 1 || threads > 256) {
            throw new IllegalArgumentException("--threads must be 1 to 256, got " + threads);
        }
        List<leadline.brokerage.replay.Command> commands = commands();
        Replay.Outcome outcome = Replay.run(commands, threads, () -> {
            if (target.http != null) {
                return new HttpPlayer(target.http);
            }
            Connection connection = target.database.open();
            return new BrokeragePlayer(new DirectBrokerage(SingleConnection.source(connection)), connection);
        });
        System.out.println("{\"done\": " + outcome.done() + ", \"refused\": " + outcome.refused() + "}");
        return 0;
    }

    private List<leadline.brokerage.replay.Command> commands() throws Exception {
        if (log.file != null) {
            return CommandFile.read(log.file);
        }
        if (target.http != null) {
            throw new IllegalArgumentException("--http needs a log from a file: make one with \"commands\"");
        }
        try (Connection connection = target.database.open();
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(
                        "SELECT version, units, seed, accounts, instruments, holdings_per_account FROM generation")) {
            if (!row.next() || row.getInt(1) != Generator.VERSION) {
                throw new SQLException("the database holds no data of generator version " + Generator.VERSION);
            }
            Scale scale = new Scale(row.getInt(2), row.getLong(4), row.getInt(5), row.getInt(6));
            return new CommandGenerator(scale, row.getLong(3), seed).generate(log.count);
        }
    }
}
