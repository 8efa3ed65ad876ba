package leadline.common;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** Compares the generated rows of a database with the same rows generated again; what a run may change is left out. */
public final class Opening implements Sink {
    /**
     * What a run may do to the generated rows of a table.
     *
     * @param columns those it changes
     * @param where tells generated rows it has not changed from all others
     * @param changed finds the first column of generated rows it changed or removed; null without any
     */
    public record Rule(Set<String> columns, String where, String changed) {
        public static Rule changing(String... columns) {
            return new Rule(Set.of(columns), "1 = 1", null);
        }

        public static Rule within(String where, String... columns) {
            return new Rule(Set.of(columns), where, null);
        }
    }

    /** Gives the rows to a sink, of passwords only how their hash begins. */
    public interface Source {
        void rows(Sink sink) throws SQLException;
    }

    private static final Rule FIXED = Rule.changing();

    private final Connection connection;
    private final Schema schema;
    private final Map<String, Rule> rules;
    private final Map<String, Set<Object>> changed = new HashMap<>();
    private final Map<String, RowSum> expected = new HashMap<>();

    private Opening(Connection connection, Schema schema, Map<String, Rule> rules) {
        this.connection = connection;
        this.schema = schema;
        this.rules = rules;
    }

    /** Tables without a rule may not be changed at all. */
    public static Audit audit(Connection connection, Schema schema, Map<String, Rule> rules, Source source)
            throws SQLException {
        Opening opening = new Opening(connection, schema, rules);
        source.rows(opening);
        List<String> wrong = new ArrayList<>();
        for (String table : new TreeSet<>(opening.expected.keySet())) {
            RowSum rows = opening.stored(table);
            RowSum right = opening.expected.get(table);
            if (!rows.same(right)) {
                wrong.add(table + " (" + rows.rows() + " rows, generated " + right.rows() + ")");
            }
        }
        return new Audit(
                "opening-data-are-the-generated-ones",
                wrong.isEmpty(),
                wrong.isEmpty()
                        ? opening.expected.size() + " tables are the same"
                        : "not the same: " + String.join(", ", wrong));
    }

    private RowSum stored(String table) throws SQLException {
        Rule rule = rules.getOrDefault(table, FIXED);
        List<String> columns = schema.tables().get(table).columns().stream()
                .filter(column -> !rule.columns().contains(column))
                .map(column ->
                        column.equals("password_hash") ? "LEFT(password_hash, " + Passwords.BEGINNING + ")" : column)
                .toList();
        return RowSum.of(
                connection, "SELECT " + String.join(", ", columns) + " FROM " + table + " WHERE " + rule.where());
    }

    @Override
    public void add(String table, Object... values) throws SQLException {
        Rule rule = rules.getOrDefault(table, FIXED);
        if (!changed.containsKey(table)) {
            changed.put(table, new HashSet<>());
            expected.put(table, new RowSum());
            if (rule.changed() != null) {
                changed.get(table).addAll(Rows.list(connection, rule.changed(), row -> row.getObject(1)));
            }
        }
        if (!changed.get(table).contains(values[0])) {
            List<String> columns = schema.tables().get(table).columns();
            List<Object> kept = new ArrayList<>(Arrays.asList(values));
            for (int i = columns.size() - 1; i >= 0; i--) {
                if (rule.columns().contains(columns.get(i))) {
                    kept.remove(i);
                }
            }
            expected.get(table).add(kept.toArray());
        }
    }
}
