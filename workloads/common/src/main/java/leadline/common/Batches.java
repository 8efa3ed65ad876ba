package leadline.common;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;

/** Rows sent a thousand at a time into the tables of a schema; those they refer to are sent first. */
public final class Batches implements Sink, AutoCloseable {
    public static final int ROWS = 1_000;

    private final Connection connection;
    private final Schema schema;
    private final Map<String, PreparedStatement> statements = new HashMap<>();
    private final Map<String, Integer> waiting = new HashMap<>();

    public Batches(Connection connection, Schema schema) {
        this.connection = connection;
        this.schema = schema;
    }

    @Override
    public void add(String table, Object... values) throws SQLException {
        PreparedStatement statement = statements.get(table);
        if (statement == null) {
            statement = connection.prepareStatement(
                    "INSERT INTO " + table + " VALUES (?" + ", ?".repeat(values.length - 1) + ")");
            statements.put(table, statement);
        }
        Rows.set(statement, values);
        statement.addBatch();
        if (waiting.merge(table, 1, Integer::sum) == ROWS) {
            send(table);
        }
    }

    private void send(String table) throws SQLException {
        if (waiting.getOrDefault(table, 0) > 0) {
            waiting.put(table, 0);
            for (Schema.Reference reference : schema.tables().get(table).references()) {
                send(reference.table());
            }
            statements.get(table).executeBatch();
        }
    }

    @Override
    public void close() throws SQLException {
        for (String table : statements.keySet()) {
            send(table);
        }
        for (PreparedStatement statement : statements.values()) {
            statement.close();
        }
    }
}
