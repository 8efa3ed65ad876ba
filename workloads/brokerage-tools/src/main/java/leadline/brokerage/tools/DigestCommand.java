package leadline.brokerage.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.sql.Connection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import leadline.brokerage.check.Digest;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** {@code digest}: prints {"digest": hex, "tables": {...}}. */
@Command(
        name = "digest",
        description = "One number for the data, free of generated ids, times and interleaving.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class DigestCommand implements Callable<Integer> {
    @Mixin
    private DatabaseOptions database;

    @Override
    public Integer call() throws Exception {
        Digest.Result result;
        try (Connection connection = database.open()) {
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            result = Digest.of(connection);
            connection.rollback();
        }
        Map<String, Object> tables = new LinkedHashMap<>();
        result.tables().forEach((name, part) -> {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("rows", part.rows());
            entry.put("sha256", part.sha256());
            tables.put(name, entry);
        });
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("digest", result.sha256());
        out.put("tables", tables);
        System.out.println(JSON.std.with(JSON.Feature.PRETTY_PRINT_OUTPUT).asString(out));
        return 0;
    }
}
