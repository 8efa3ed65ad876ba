package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import leadline.common.Rows;
import leadline.dealership.domain.Checks;
import leadline.dealership.domain.DealerHome;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.StockLine;
import leadline.dealership.domain.WorkFigures;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkStatus;

/** The reading operations on a connection. */
public final class Queries {
    private Queries() {}

    public static long dealers(Connection c) throws SQLException {
        return Rows.first(c, Sql.COUNT_DEALERS, row -> row.getLong(1));
    }

    public static List<Model> models(Connection c, String after, int limit) throws SQLException {
        return Rows.list(c, Sql.MODELS_AFTER, Readers::model, Checks.place(after), Checks.limit(limit));
    }

    public static List<Model> modelsBefore(Connection c, String before, int limit) throws SQLException {
        List<Model> models = new ArrayList<>(
                Rows.list(c, Sql.MODELS_BEFORE, Readers::model, Checks.place(before), Checks.limit(limit)));
        Collections.reverse(models);
        return models;
    }

    public static Model model(Connection c, String id) throws SQLException {
        return found(Rows.first(c, Sql.MODEL, Readers::model, Checks.model(id)), "model " + id);
    }

    public static DealerHome home(Connection c, long dealer) throws SQLException {
        return found(
                Rows.first(
                        c,
                        Sql.HOME,
                        row -> new DealerHome(
                                row.getString(1),
                                row.getLong(2),
                                row.getLong(3),
                                row.getLong(4),
                                row.getLong(5),
                                row.getLong(6),
                                row.getLong(7),
                                row.getLong(8)),
                        dealer),
                "dealer " + dealer);
    }

    public static List<StockLine> inventory(Connection c, long dealer) throws SQLException {
        return Rows.list(
                c,
                Sql.INVENTORY,
                row -> new StockLine(row.getString(1), row.getString(2), row.getInt(3), row.getLong(4)),
                dealer);
    }

    public static List<SalesOrder> openOrders(Connection c, long dealer) throws SQLException {
        return Readers.orders(c, Sql.OPEN_ORDERS, dealer, Dealership.MOST_ROWS);
    }

    public static SalesOrder order(Connection c, long dealer, long id) throws SQLException {
        List<SalesOrder> orders = Readers.orders(c, Sql.ORDER, id, dealer);
        return found(orders.isEmpty() ? null : orders.get(0), "order " + id + " of this dealer");
    }

    public static WorkOrder work(Connection c, long id) throws SQLException {
        return found(Rows.first(c, Sql.WORK_BY_ID, Readers::work, id), "work order " + id);
    }

    public static WorkStatus status(Connection c, long id) throws SQLException {
        return new WorkStatus(work(c, id), Readers.purchases(c, Sql.PURCHASES_OF_WORK, id));
    }

    public static WorkFigures figures(Connection c) throws SQLException {
        Map<String, Long> work = counts(c, Sql.WORK_COUNTS);
        Map<String, Long> purchases = counts(c, Sql.PURCHASE_COUNTS);
        return new WorkFigures(
                work.getOrDefault("SCHEDULED", 0L),
                work.getOrDefault("RUNNING", 0L),
                work.getOrDefault("COMPLETED", 0L),
                work.getOrDefault("CANCELLED", 0L),
                Rows.first(c, Sql.UNCLAIMED, row -> row.getLong(1)),
                purchases.getOrDefault("SENT", 0L),
                purchases.getOrDefault("DELIVERED", 0L),
                Rows.first(c, Sql.REPEATED, row -> row.getLong(1)));
    }

    public static List<PurchaseOrder> undelivered(Connection c, LocalDateTime sentBefore, int limit)
            throws SQLException {
        return Readers.purchases(c, Sql.UNDELIVERED, sentBefore, Checks.limit(limit));
    }

    static <T> T found(T value, String what) {
        if (value == null) {
            throw DealershipException.notFound("there is no " + what);
        }
        return value;
    }

    private static Map<String, Long> counts(Connection c, String sql) throws SQLException {
        Map<String, Long> out = new HashMap<>();
        Rows.list(c, sql, row -> out.put(row.getString(1), row.getLong(2)));
        return out;
    }
}
