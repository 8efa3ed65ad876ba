import io.hyperfoil.api.config.Benchmark;
import io.hyperfoil.api.config.BenchmarkData;
import io.hyperfoil.core.impl.LocalSimulationRunner;
import io.hyperfoil.core.parser.BenchmarkParser;
import io.hyperfoil.http.statistics.HttpStats;
import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.util.Map;

/**
 * Runs Hyperfoil's engine on each benchmark file given, one after the other in this process, and prints for each one
 * the seconds of CPU used, the answers of status 2xx and all others.
 */
public final class Run {
    private Run() {}

    public static void main(String[] files) throws Exception {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (String file : files) {
            Benchmark benchmark;
            try (InputStream in = new FileInputStream(file)) {
                benchmark = BenchmarkParser.instance().buildBenchmark(in, BenchmarkData.EMPTY, Map.of());
            }
            long[] count = new long[2];
            long before = system.getProcessCpuTime();
            var runner = new LocalSimulationRunner(benchmark, (phase, step, metric, snapshot, countDown) -> {
                synchronized (count) {
                    HttpStats http = HttpStats.get(snapshot);
                    count[0] += http.status_2xx;
                    count[1] += snapshot.requestCount - http.status_2xx;
                }
            }, null, null);
            runner.run();
            System.out.printf("cpu %.6f ok %d other %d%n", (system.getProcessCpuTime() - before) / 1e9, count[0], count[1]);
        }
        System.exit(0);
    }
}
