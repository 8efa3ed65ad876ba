package leadline.common;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/** Rows sent a thousand at a time; those it refers to are sent first. */
public final class Batch implements AutoCloseable {
    public static final int ROWS = 1_000;

    private final PreparedStatement statement;
    private final Batch parent;
    private int waiting;

    public Batch(Connection connection, String sql) throws SQLException {
        this(connection, sql, null);
    }

    /** {@code parent} holds the rows that these refer to. */
    public Batch(Connection connection, String sql, Batch parent) throws SQLException {
        this.statement = connection.prepareStatement(sql);
        this.parent = parent;
    }

    public void add(Object... values) throws SQLException {
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        statement.addBatch();
        if (++waiting == ROWS) {
            send();
        }
    }

    private void send() throws SQLException {
        if (parent != null) {
            parent.send();
        }
        if (waiting > 0) {
            statement.executeBatch();
            waiting = 0;
        }
    }

    @Override
    public void close() throws SQLException {
        try (statement) {
            send();
        }
    }
}
