package leadline.common;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The tables that a resource with {@code CREATE TABLE} statements makes, one column or constraint a line. */
public final class Schema {
    private static final Pattern TABLE = Pattern.compile("CREATE TABLE (\\w+) \\((.*)\\)", Pattern.DOTALL);
    private static final Pattern COLUMN = Pattern.compile("([a-z]\\w*) .*?(?:REFERENCES (\\w+) \\((\\w+)\\).*)?");
    private static final Pattern KEY = Pattern.compile("PRIMARY KEY \\((.*)\\)");

    /** A column that holds the key of a row of {@code table}. */
    public record Reference(String column, String table, String key) {}

    /** Columns in their order, and those of the primary key. */
    public record Table(String name, List<String> columns, List<String> key, List<Reference> references) {}

    private final Class<?> beside;
    private final String resource;
    private final Map<String, Table> tables = new LinkedHashMap<>();

    public Schema(Class<?> beside, String resource) {
        this.beside = beside;
        this.resource = resource;
        for (String statement : Dialect.POSTGRESQL.statements(Dialect.text(beside, resource))) {
            Matcher create = TABLE.matcher(statement);
            if (create.find()) {
                tables.put(create.group(1), table(create.group(1), create.group(2)));
            }
        }
    }

    private static Table table(String name, String body) {
        Table table = new Table(name, new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (String line : body.strip().split(",\\R\\s*")) {
            Matcher key = KEY.matcher(line);
            Matcher column = COLUMN.matcher(line);
            if (key.matches()) {
                table.key().addAll(List.of(key.group(1).split(", ")));
            } else if (column.matches()) {
                table.columns().add(column.group(1));
                if (line.contains("PRIMARY KEY")) {
                    table.key().add(column.group(1));
                }
                if (column.group(2) != null) {
                    table.references().add(new Reference(column.group(1), column.group(2), column.group(3)));
                }
            }
        }
        return table;
    }

    /** By name; those that a table refers to come before it. */
    public Map<String, Table> tables() {
        return tables;
    }

    /** Tables in an order in which they can be dropped. */
    private List<String> names() {
        List<String> names = new ArrayList<>(tables.keySet());
        Collections.reverse(names);
        return names;
    }

    /** Makes the tables anew, without rows. */
    public void create(Connection connection, Dialect dialect) throws SQLException {
        dialect.dropTables(connection, names());
        dialect.run(connection, beside, resource);
    }

    public void analyze(Connection connection, Dialect dialect) throws SQLException {
        dialect.analyze(connection, names());
    }

    /** Whether every reference leads to a row, foreign keys or not. */
    public Audit references(Connection connection) throws SQLException {
        List<String> wrong = new ArrayList<>();
        for (Table table : tables.values()) {
            for (Reference reference : table.references()) {
                long lost = Rows.first(
                        connection,
                        "SELECT COUNT(*) FROM " + table.name() + " c LEFT JOIN " + reference.table() + " p ON p."
                                + reference.key() + " = c." + reference.column() + " WHERE c." + reference.column()
                                + " IS NOT NULL AND p." + reference.key() + " IS NULL",
                        row -> row.getLong(1));
                if (lost > 0) {
                    wrong.add(lost + " of " + table.name() + "." + reference.column());
                }
            }
        }
        return new Audit(
                "references-lead-to-rows",
                wrong.isEmpty(),
                wrong.isEmpty() ? "0 rows are wrong" : "no row for " + String.join(", ", wrong));
    }
}
