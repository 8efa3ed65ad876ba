package leadline.brokerage.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import leadline.brokerage.check.Audits;
import leadline.brokerage.check.Faults;
import leadline.common.Audit;
import leadline.common.DriverCount;
import leadline.common.Mutants;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code audit}: prints {"audits": [...]}; exit code 1 when one did not pass. */
@Command(
        name = "audit",
        description = "Check the data after a run.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class AuditCommand implements Callable<Integer> {
    @Mixin
    private DatabaseOptions database;

    @Mixin
    private ScaleOptions data;

    @Option(
            names = "--counts",
            required = true,
            description =
                    "file with {\"buy\": {\"ok\": n, \"failed\": n}, ...} for buy, sell, register, login, profile")
    private Path counts;

    @Option(
            names = "--mutants",
            description =
                    "change every table and column of the data instead, a row at a time chosen by this seed, each in"
                            + " a transaction that is rolled back, and print which audits noticed; by the database's owner")
    private Long mutants;

    @Override
    public Integer call() throws Exception {
        Map<String, DriverCount> driver = counts(counts);
        List<Audit> audits;
        try (Connection connection = database.open()) {
            connection.setReadOnly(mutants == null);
            connection.setAutoCommit(false);
            if (mutants != null) {
                return report(Faults.mutants(connection, data.scale(), data.seed(), mutants));
            }
            audits = new Audits(connection).run(data.scale(), data.seed(), driver);
            connection.rollback();
        }
        List<Map<String, Object>> out = new ArrayList<>();
        for (Audit audit : audits) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("name", audit.name());
            entry.put("passed", audit.passed());
            entry.put("detail", audit.detail());
            out.add(entry);
        }
        System.out.println(JSON.std.with(JSON.Feature.PRETTY_PRINT_OUTPUT).asString(Map.of("audits", out)));
        return audits.stream().allMatch(Audit::passed) ? 0 : 1;
    }

    private static int report(List<Mutants.Result> results) throws IOException {
        List<Map<String, Object>> out = new ArrayList<>();
        for (Mutants.Result result : results) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("mutant", result.mutant());
            entry.put("survived", result.survived());
            entry.put("failed", result.failed());
            entry.put("reason", result.reason());
            out.add(entry);
        }
        System.out.println(JSON.std.with(JSON.Feature.PRETTY_PRINT_OUTPUT).asString(Map.of("mutants", out)));
        return results.stream().noneMatch(Mutants.Result::survived) ? 0 : 1;
    }

    static Map<String, DriverCount> counts(Path file) throws IOException {
        Map<String, DriverCount> out = new LinkedHashMap<>();
        for (Map.Entry<String, Object> entry :
                JSON.std.mapFrom(Files.readAllBytes(file)).entrySet()) {
            if (!(entry.getValue() instanceof Map<?, ?> count)
                    || !(count.get("ok") instanceof Number ok)
                    || !(count.get("failed") instanceof Number failed)) {
                throw new IOException(file + ": \"" + entry.getKey() + "\" must be {\"ok\": n, \"failed\": n}");
            }
            out.put(entry.getKey(), new DriverCount(ok.longValue(), failed.longValue()));
        }
        return out;
    }
}
