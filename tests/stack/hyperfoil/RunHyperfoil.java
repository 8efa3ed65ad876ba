import io.hyperfoil.api.config.Benchmark;
import io.hyperfoil.api.config.BenchmarkData;
import io.hyperfoil.core.impl.LocalSimulationRunner;
import io.hyperfoil.core.parser.BenchmarkParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Parses a benchmark file and runs it in this process: FILE URL [PARAMETER=VALUE ...]. */
public final class RunHyperfoil {
    public static void main(String[] arguments) throws Exception {
        String text = Files.readString(Path.of(arguments[0]));
        Map<String, String> parameters = new HashMap<>(Map.of("URL", arguments[1], "RATE", "5", "DURATION", "1s"));
        for (int at = 2; at < arguments.length; at++) {
            String[] words = arguments[at].split("=", 2);
            parameters.put(words[0], words[1]);
        }
        var source = BenchmarkParser.instance().createSource(text, BenchmarkData.EMPTY);
        Benchmark benchmark = BenchmarkParser.instance().buildBenchmark(source, parameters);
        new LocalSimulationRunner(benchmark).run();
        System.out.println("ended");
        System.exit(0);
    }
}
