package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import leadline.common.Audit;
import leadline.common.Mutants;
import leadline.dealership.check.Audits;
import leadline.dealership.check.Faults;
import leadline.dealership.check.Inputs;
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
            description = "file with {\"purchase\": {\"ok\": n, \"failed\": n}, ...} by transaction")
    private Path counts;

    @Option(
            names = "--emulator",
            description =
                    "address of the supplier emulator, or a file with its counts; without it its audits are left out")
    private String emulator;

    @Option(
            names = "--load",
            description = "file with what a closed load of the scenario asked for (docs/reference/dealership-data.md);"
                    + " without it the audits of rates are left out")
    private Path load;

    @Option(
            names = "--faults",
            description =
                    "plant known faults instead, each in a transaction that is rolled back, and print which audits"
                            + " noticed; needs --emulator and --load")
    private boolean faults;

    @Option(
            names = "--mutants",
            description =
                    "change every table and column of the data instead, a row at a time chosen by this seed, each in"
                            + " a transaction that is rolled back, and print which audits noticed; by the database's owner")
    private Long mutants;

    @Override
    public Integer call() throws Exception {
        Inputs inputs = new Inputs(
                data.scale(),
                data.seed(),
                Documents.counts(counts),
                emulator == null ? null : Documents.supplier(emulator),
                load == null ? null : Documents.load(load));
        if (mutants != null) {
            try (Connection connection = database.open()) {
                connection.setAutoCommit(false);
                return report(Faults.mutants(connection, inputs, mutants));
            }
        }
        return faults ? plant(inputs) : audit(inputs);
    }

    private int audit(Inputs inputs) throws Exception {
        List<Audit> audits;
        try (Connection connection = database.open()) {
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            audits = Audits.run(connection, inputs);
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
        print("audits", out);
        return audits.stream().allMatch(Audit::passed) ? 0 : 1;
    }

    private int plant(Inputs inputs) throws Exception {
        if (inputs.supplier() == null || inputs.load() == null) {
            throw new IllegalArgumentException("--faults needs --emulator and --load");
        }
        List<Faults.Result> results;
        try (Connection connection = database.open()) {
            connection.setAutoCommit(false);
            results = Faults.run(connection, inputs);
        }
        List<Map<String, Object>> out = new ArrayList<>();
        for (Faults.Result result : results) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("fault", result.fault());
            entry.put("planted", result.planted());
            entry.put("noticed", result.noticed());
            entry.put("expected", result.expected());
            entry.put("failed", result.failed());
            out.add(entry);
        }
        print("faults", out);
        return results.stream().allMatch(Faults.Result::noticed) ? 0 : 1;
    }

    private static int report(List<Mutants.Result> results) throws Exception {
        List<Map<String, Object>> out = new ArrayList<>();
        for (Mutants.Result result : results) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("mutant", result.mutant());
            entry.put("survived", result.survived());
            entry.put("failed", result.failed());
            entry.put("reason", result.reason());
            out.add(entry);
        }
        print("mutants", out);
        return results.stream().noneMatch(Mutants.Result::survived) ? 0 : 1;
    }

    private static void print(String name, List<Map<String, Object>> rows) throws Exception {
        System.out.println(JSON.std.with(JSON.Feature.PRETTY_PRINT_OUTPUT).asString(Map.of(name, rows)));
    }
}
