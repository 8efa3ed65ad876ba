package leadline.common;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Statements with their parameters, and rows made into values. */
public final class Rows {
    /** SQL states of PostgreSQL and of MariaDB. */
    private static final Set<String> DUPLICATE_KEY = Set.of("23505", "23000");

    /** Makes one value of the current row. */
    public interface Reader<T> {
        T read(ResultSet row) throws SQLException;
    }

    private Rows() {}

    public static <T> List<T> list(Connection connection, String sql, Reader<T> reader, Object... parameters)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            set(statement, parameters);
            List<T> out = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    out.add(reader.read(rows));
                }
            }
            return out;
        }
    }

    /** The first row, or null without one. */
    public static <T> T first(Connection connection, String sql, Reader<T> reader, Object... parameters)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            set(statement, parameters);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? reader.read(rows) : null;
            }
        }
    }

    /** Number of rows changed. */
    public static int update(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            set(statement, parameters);
            return statement.executeUpdate();
        }
    }

    /** Sends the rows together; nothing for none. */
    public static void batch(Connection connection, String sql, List<Object[]> rows) throws SQLException {
        if (rows.isEmpty()) {
            return;
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (Object[] row : rows) {
                set(statement, row);
                statement.addBatch();
            }
            statement.executeBatch();
        }
    }

    /** The id the database gave to the new row. */
    public static long insert(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql, new String[] {"id"})) {
            set(statement, parameters);
            statement.executeUpdate();
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                return keys.getLong(1);
            }
        }
    }

    /** A {@link JDBCType} among the parameters is a null of that type: drivers prepare again when types change. */
    public static void set(PreparedStatement statement, Object... parameters) throws SQLException {
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i] instanceof JDBCType type) {
                statement.setNull(i + 1, type.getVendorTypeNumber());
            } else {
                statement.setObject(i + 1, parameters[i]);
            }
        }
    }

    /** Whether a row with the same key was there before. */
    public static boolean isDuplicate(SQLException e) {
        return e != null && DUPLICATE_KEY.contains(String.valueOf(e.getSQLState()));
    }

    /** Whether a constraint or the size of a column keeps a row out. */
    static boolean isRefused(SQLException e) {
        String state = String.valueOf(e.getSQLState());
        return state.startsWith("23") || state.startsWith("22");
    }
}
