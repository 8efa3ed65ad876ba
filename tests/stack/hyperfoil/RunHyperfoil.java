import io.hyperfoil.api.config.Benchmark;
import io.hyperfoil.api.config.BenchmarkData;
import io.hyperfoil.core.impl.LocalSimulationRunner;
import io.hyperfoil.core.parser.BenchmarkParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Parses a benchmark file and runs it in this process. */
public final class RunHyperfoil {
    public static void main(String[] arguments) throws Exception {
        String text = Files.readString(Path.of(arguments[0]));
        var source = BenchmarkParser.instance().createSource(text, BenchmarkData.EMPTY);
        Benchmark benchmark = BenchmarkParser.instance().buildBenchmark(source, Map.of("URL", arguments[1], "RATE", "5", "DURATION", "1s"));
        new LocalSimulationRunner(benchmark).run();
        System.out.println("ended");
        System.exit(0);
    }
}
