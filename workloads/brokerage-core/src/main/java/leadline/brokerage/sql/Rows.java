package leadline.brokerage.sql;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Side;

/** Statements with their parameters, and rows made into values. */
final class Rows {
    /** Makes one value of the current row. */
    interface Reader<T> {
        T read(ResultSet row) throws SQLException;
    }

    private Rows() {}

    static <T> List<T> list(Connection connection, String sql, Reader<T> reader, Object... parameters)
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
    static <T> T first(Connection connection, String sql, Reader<T> reader, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            set(statement, parameters);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? reader.read(rows) : null;
            }
        }
    }

    /** Number of rows changed. */
    static int update(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            set(statement, parameters);
            return statement.executeUpdate();
        }
    }

    /** The id the database gave to the new row. */
    static long insert(Connection connection, String sql, Object... parameters) throws SQLException {
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
    static void set(PreparedStatement statement, Object... parameters) throws SQLException {
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i] instanceof JDBCType type) {
                statement.setNull(i + 1, type.getVendorTypeNumber());
            } else {
                statement.setObject(i + 1, parameters[i]);
            }
        }
    }

    static Quote quote(ResultSet row) throws SQLException {
        return new Quote(
                row.getString(1),
                row.getString(2),
                row.getLong(3),
                row.getLong(4),
                row.getLong(5),
                row.getLong(6),
                row.getInt(7),
                row.getLong(8),
                row.getLong(9));
    }

    static Order order(ResultSet row) throws SQLException {
        return new Order(
                row.getLong(1),
                Side.valueOf(row.getString(2)),
                row.getString(3),
                row.getInt(4),
                row.getLong(5),
                row.getLong(6),
                row.getString(7),
                row.getObject(8, LocalDateTime.class),
                row.getString(9));
    }

    static Holding holding(ResultSet row) throws SQLException {
        return new Holding(
                row.getLong(1), row.getString(2), row.getInt(3), row.getLong(4), row.getLong(5), row.getLong(6));
    }
}
