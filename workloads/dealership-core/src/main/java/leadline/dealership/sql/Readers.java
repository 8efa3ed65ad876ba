package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Clock;
import java.time.LocalDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import leadline.common.Rows;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.OrderKind;
import leadline.dealership.domain.OrderLine;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.PurchaseStatus;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.WorkKind;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkState;

/** Rows made into values. */
final class Readers {
    private Readers() {}

    /** Now in UTC, at the precision of the schema. */
    static LocalDateTime now() {
        return LocalDateTime.now(Clock.systemUTC()).truncatedTo(ChronoUnit.MILLIS);
    }

    static Model model(ResultSet row) throws SQLException {
        return new Model(row.getString(1), row.getString(2), row.getString(3), row.getLong(4), row.getInt(5));
    }

    static OrderLine line(ResultSet row) throws SQLException {
        return new OrderLine(row.getInt(1), row.getString(2), row.getInt(3), row.getLong(4));
    }

    static PartLine part(ResultSet row) throws SQLException {
        return new PartLine(row.getString(1), row.getInt(2));
    }

    /** Orders of rows with one line each. */
    static List<SalesOrder> orders(Connection c, String sql, Object... parameters) throws SQLException {
        Map<Long, SalesOrder> orders = new LinkedHashMap<>();
        Rows.list(
                c,
                sql,
                row -> {
                    long id = row.getLong(1);
                    if (!orders.containsKey(id)) {
                        orders.put(id, order(row, id));
                    }
                    return orders.get(id)
                            .lines()
                            .add(new OrderLine(row.getInt(10), row.getString(11), row.getInt(12), row.getLong(13)));
                },
                parameters);
        return List.copyOf(orders.values());
    }

    private static SalesOrder order(ResultSet row, long id) throws SQLException {
        return new SalesOrder(
                id,
                row.getLong(2),
                OrderKind.valueOf(row.getString(3)),
                row.getBoolean(4),
                OrderStatus.valueOf(row.getString(5)),
                row.getLong(6),
                row.getString(7),
                row.getObject(8, LocalDateTime.class),
                row.getObject(9, LocalDateTime.class),
                new ArrayList<>());
    }

    static WorkOrder work(ResultSet row) throws SQLException {
        WorkKind kind = WorkKind.valueOf(row.getString(2));
        return new WorkOrder(
                row.getLong(1),
                kind,
                kind == WorkKind.LARGE ? row.getLong(3) : null,
                kind == WorkKind.LARGE ? row.getInt(4) : null,
                row.getString(5),
                row.getInt(6),
                row.getInt(7),
                WorkState.valueOf(row.getString(8)),
                row.getInt(9),
                row.getString(10),
                row.getObject(11, LocalDateTime.class),
                row.getObject(12, LocalDateTime.class));
    }

    /** Purchase orders of rows with one line each. */
    static List<PurchaseOrder> purchases(Connection c, String sql, Object... parameters) throws SQLException {
        Map<Long, PurchaseOrder> orders = new LinkedHashMap<>();
        Rows.list(
                c,
                sql,
                row -> {
                    long id = row.getLong(1);
                    if (!orders.containsKey(id)) {
                        orders.put(
                                id,
                                new PurchaseOrder(
                                        id,
                                        row.getLong(2),
                                        row.getLong(3),
                                        PurchaseStatus.valueOf(row.getString(4)),
                                        row.getObject(5, LocalDateTime.class),
                                        row.getObject(6, LocalDateTime.class),
                                        new ArrayList<>()));
                    }
                    return orders.get(id).lines().add(new PartLine(row.getString(7), row.getInt(8)));
                },
                parameters);
        return List.copyOf(orders.values());
    }
}
