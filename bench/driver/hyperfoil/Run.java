import io.hyperfoil.api.config.Benchmark;
import io.hyperfoil.api.config.BenchmarkData;
import io.hyperfoil.core.impl.LocalSimulationRunner;
import io.hyperfoil.core.parser.BenchmarkParser;
import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Map;

/** Runs Hyperfoil's engine on each benchmark file given, one after the other; prints "main" before the last one. */
public final class Run {
    private Run() {}

    public static void main(String[] files) throws Exception {
        for (int at = 0; at < files.length; at++) {
            Benchmark benchmark;
            try (InputStream in = new FileInputStream(files[at])) {
                benchmark = BenchmarkParser.instance().buildBenchmark(in, BenchmarkData.EMPTY, Map.of());
            }
            if (at == files.length - 1) {
                System.out.println("main");
            }
            new LocalSimulationRunner(benchmark).run();
        }
        System.exit(0);
    }
}
