package leadline.brokerage.sql;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDateTime;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Side;

/** Rows made into values. */
final class Readers {
    private Readers() {}

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
