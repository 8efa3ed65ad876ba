package leadline.common;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;

/**
 * Mutation testing of audits: deletes, duplicates, shifts and swaps one row or value after the other, in every table
 * and column of a schema, and sees which audits fail. Foreign keys are off and every change is rolled back.
 */
public final class Mutants {
    /** The kinds of changes. */
    public enum Change {
        DELETE,
        DUPLICATE,
        SHIFT,
        SWAP
    }

    /**
     * Values whose change no audit can notice: such a mutant is equivalent to the data of a right run.
     *
     * @param columns of rows that may be deleted, the first of the key
     * @param where the rows of the table for which this is so
     */
    public record Equivalent(String table, List<String> columns, Set<Change> changes, String where, String reason) {}

    /**
     * What became of one mutant.
     *
     * @param failed audits that fail with it and not without it
     * @param reason why there is no such mutant; null when it was planted
     */
    public record Result(String mutant, Set<String> failed, String reason) {
        public boolean survived() {
            return reason == null && failed.isEmpty();
        }
    }

    /** Rows of a table and those in their place. */
    private record Replacement(List<Object[]> removed, List<Object[]> added) {}

    /** Runs the audits. */
    public interface Source {
        List<Audit> run() throws SQLException;
    }

    /** Rows that are tried where constraints refuse a change. */
    private static final int MOST_TRIES = 8;

    private static final int KEYS_SWAPPED = 6;

    private final Connection connection;
    private final Schema schema;
    private final List<Equivalent> equivalents;
    private final Random random;
    private final Source audits;
    private final List<Result> results = new ArrayList<>();
    private Set<String> before;

    private Mutants(Connection connection, Schema schema, List<Equivalent> equivalents, long seed, Source audits) {
        this.connection = connection;
        this.schema = schema;
        this.equivalents = equivalents;
        this.random = new Random(seed);
        this.audits = audits;
    }

    /** Plants all mutants; {@code seed} chooses their rows. */
    public static List<Result> run(
            Connection connection, Schema schema, List<Equivalent> equivalents, long seed, Source audits)
            throws SQLException {
        Mutants mutants = new Mutants(connection, schema, equivalents, seed, audits);
        Dialect dialect = Dialect.of(connection);
        dialect.foreignKeys(connection, false);
        connection.commit();
        try {
            mutants.before = mutants.failed();
            for (Schema.Table table : schema.tables().values()) {
                mutants.table(table);
            }
        } finally {
            connection.rollback();
            dialect.foreignKeys(connection, true);
            connection.commit();
        }
        return mutants.results;
    }

    private Set<String> failed() throws SQLException {
        Set<String> failed = new TreeSet<>();
        for (Audit audit : audits.run()) {
            if (!audit.passed()) {
                failed.add(audit.name());
            }
        }
        return failed;
    }

    private void table(Schema.Table table) throws SQLException {
        List<Object[]> rows = rows(table, "1 = 1");
        if (rows.isEmpty()) {
            results.add(new Result("any change of " + table.name(), Set.of(), "it has no rows"));
            return;
        }
        Collections.shuffle(rows, random);
        plant(
                "delete",
                table,
                open(table, table.key().get(0), Change.DELETE, rows).stream()
                        .map(row -> new Replacement(List.<Object[]>of(row), List.of()))
                        .toList());
        for (String column : table.key()) {
            Object[] copy = copy(table, rows, column);
            plant(
                    "duplicate with another " + column,
                    table,
                    List.of(new Replacement(List.of(), List.<Object[]>of(copy))));
        }
        for (String column : table.columns()) {
            int at = table.columns().indexOf(column);
            List<Object[]> shifted = open(table, column, Change.SHIFT, rows);
            for (int step : new int[] {1, -1}) {
                plant(
                        "shift by " + step + " " + column,
                        table,
                        shifted.stream()
                                .map(row -> new Replacement(
                                        List.<Object[]>of(row), List.<Object[]>of(with(row, at, next(row[at], step)))))
                                .toList());
            }
            List<Object[]> swapped = open(table, column, Change.SWAP, rows);
            // Two rows that nobody tells apart may have each other's key: several pairs of keys are swapped.
            boolean key = table.key().equals(List.of(column));
            plant(
                    "swap " + column,
                    table,
                    IntStream.range(1, swapped.size())
                            .filter(i -> different(table, at, swapped.get(key ? i - 1 : 0), swapped.get(i)))
                            .mapToObj(i -> swap(swapped.get(key ? i - 1 : 0), swapped.get(i), at))
                            .toList(),
                    key ? KEYS_SWAPPED : 1);
        }
    }

    private static Replacement swap(Object[] row, Object[] other, int at) {
        return new Replacement(List.of(row, other), List.of(with(row, at, other[at]), with(other, at, row[at])));
    }

    /** Rows with a value in the column of which no equivalence holds. */
    private List<Object[]> open(Schema.Table table, String column, Change change, List<Object[]> rows)
            throws SQLException {
        Set<List<Object>> closed = new HashSet<>();
        String reason = "there is no value";
        for (Equivalent equivalent : equivalents) {
            if (equivalent.table().equals(table.name())
                    && equivalent.columns().contains(column)
                    && equivalent.changes().contains(change)) {
                rows(table, equivalent.where()).forEach(row -> closed.add(Arrays.asList(row)));
                reason = equivalent.reason();
            }
        }
        int at = table.columns().indexOf(column);
        List<Object[]> out = rows.stream()
                .filter(row -> row[at] != null && !closed.contains(Arrays.asList(row)))
                .toList();
        if (out.isEmpty()) {
            results.add(new Result(change + " " + table.name() + "." + column, Set.of(), reason));
        }
        return out;
    }

    /** Whether a swap changes the data: of a key, rows below one parent would only change places. */
    private static boolean different(Schema.Table table, int at, Object[] row, Object[] other) {
        boolean parent =
                table.key().size() == 1 || !table.key().contains(table.columns().get(at));
        for (String key : table.key()) {
            int i = table.columns().indexOf(key);
            parent |= i != at && !Objects.equals(row[i], other[i]);
        }
        return parent && !Objects.equals(row[at], other[at]);
    }

    private List<Object[]> rows(Schema.Table table, String where) throws SQLException {
        String key = String.join(", ", table.key());
        return Rows.list(connection, "SELECT * FROM " + table.name() + " WHERE " + where + " ORDER BY " + key, row -> {
            Object[] values = new Object[table.columns().size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = row.getObject(i + 1);
            }
            return values;
        });
    }

    /** The first row with another value in one column of its key, one that leads to a row where it is a reference. */
    private Object[] copy(Schema.Table table, List<Object[]> rows, String column) throws SQLException {
        int at = table.columns().indexOf(column);
        Object[] row = rows.get(0);
        Set<List<Object>> taken = new HashSet<>();
        rows.forEach(other -> taken.add(key(table, other)));
        List<Object> values = new ArrayList<>();
        for (Schema.Reference reference : table.references()) {
            if (reference.column().equals(column)) {
                values.addAll(Rows.list(
                        connection,
                        "SELECT " + reference.key() + " FROM " + reference.table() + " ORDER BY 1",
                        parent -> parent.getObject(1)));
                Collections.shuffle(values, random);
            }
        }
        rows.forEach(other -> values.add(next(other[at], 1)));
        for (Object value : values) {
            Object[] copy = with(row, at, value);
            if (!taken.contains(key(table, copy))) {
                return copy;
            }
        }
        throw new IllegalStateException("no other key for a row of " + table.name());
    }

    private static List<Object> key(Schema.Table table, Object[] row) {
        return table.key().stream()
                .map(column -> row[table.columns().indexOf(column)])
                .toList();
    }

    private static Object[] with(Object[] row, int at, Object value) {
        Object[] out = row.clone();
        out[at] = value;
        return out;
    }

    /** A value beside this one; of a text its last character changes. */
    private static Object next(Object value, int step) {
        if (value instanceof Boolean bool) {
            return !bool;
        }
        if (value instanceof Integer number) {
            return number + step;
        }
        if (value instanceof Long number) {
            return number + step;
        }
        if (value instanceof Timestamp time) {
            return Timestamp.valueOf(time.toLocalDateTime().plusSeconds(step));
        }
        String text = value.toString();
        return text.substring(0, text.length() - 1) + (char) (text.charAt(text.length() - 1) + step);
    }

    private void plant(String change, Schema.Table table, List<Replacement> changes) throws SQLException {
        plant(change, table, changes, 1);
    }

    /** Plants the first changes that the database takes, until one is noticed: so many at most. */
    private void plant(String change, Schema.Table table, List<Replacement> changes, int most) throws SQLException {
        Result last = null;
        int count = 0;
        String name = change + " of " + table.name();
        for (Replacement replacement : changes.subList(0, Math.min(MOST_TRIES, changes.size()))) {
            boolean planted = replace(table, replacement);
            Set<String> failed = planted ? failed() : new TreeSet<>();
            connection.rollback();
            if (planted) {
                failed.removeAll(before);
                List<Object[]> rows = replacement.removed().isEmpty() ? replacement.added() : replacement.removed();
                List<List<Object>> keys =
                        rows.stream().map(row -> key(table, row)).toList();
                last = new Result(name + " " + keys, failed, null);
                count++;
                if (!failed.isEmpty() || count == most) {
                    break;
                }
            }
        }
        if (last != null) {
            results.add(last);
        } else if (!changes.isEmpty()) {
            results.add(new Result(name, Set.of(), "a constraint of the database refuses it"));
        }
    }

    private boolean replace(Schema.Table table, Replacement replacement) throws SQLException {
        for (Object[] row : replacement.removed()) {
            Rows.update(
                    connection,
                    "DELETE FROM " + table.name() + " WHERE " + String.join(" = ? AND ", table.key()) + " = ?",
                    key(table, row).toArray());
        }
        for (Object[] row : replacement.added()) {
            if (!insert(table, row) && !(replacement.removed().isEmpty() && insertOther(table, row))) {
                return false;
            }
        }
        return true;
    }

    /** Inserts a row that a constraint refused with one other value beside its key. */
    private boolean insertOther(Schema.Table table, Object[] row) throws SQLException {
        for (int i = 0; i < row.length; i++) {
            if (row[i] != null && !table.key().contains(table.columns().get(i))) {
                Object other = row[i] instanceof String text ? text + "x" : next(row[i], 1);
                if (insert(table, with(row, i, null)) || insert(table, with(row, i, other))) {
                    return true;
                }
            }
        }
        return false;
    }

    private boolean insert(Schema.Table table, Object[] row) throws SQLException {
        Savepoint savepoint = connection.setSavepoint();
        try {
            Rows.update(
                    connection, "INSERT INTO " + table.name() + " VALUES (?" + ", ?".repeat(row.length - 1) + ")", row);
            return true;
        } catch (SQLException e) {
            connection.rollback(savepoint);
            if (Rows.isRefused(e)) {
                return false;
            }
            throw e;
        }
    }
}
