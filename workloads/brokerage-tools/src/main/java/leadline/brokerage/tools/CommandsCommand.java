package leadline.brokerage.tools;

import java.util.concurrent.Callable;
import leadline.brokerage.replay.CommandGenerator;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code commands}: prints a seeded command log. */
@Command(
        name = "commands",
        description = "Print a seeded command log for loaded data, as JSON lines.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class CommandsCommand implements Callable<Integer> {
    @Mixin
    private ScaleOptions data;

    @Option(names = "--generate", required = true, description = "number of commands")
    private int count;

    @Option(names = "--log-seed", description = "seed of the log, default ${DEFAULT-VALUE}")
    private long logSeed = 1;

    @Override
    public Integer call() throws Exception {
        StringBuilder out = new StringBuilder();
        for (leadline.brokerage.replay.Command command :
                new CommandGenerator(data.scale(), data.seed(), logSeed).generate(count)) {
            out.append(CommandFile.line(command)).append('\n');
        }
        System.out.print(out);
        return 0;
    }
}
