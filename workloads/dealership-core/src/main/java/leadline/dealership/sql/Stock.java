package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import leadline.common.Rows;
import leadline.dealership.domain.OrderLine;

/** Stock of vehicles on a connection whose transaction somebody else ends. */
final class Stock {
    private Stock() {}

    /** Locks the finished vehicles of models in the order of their ids; how many of each anybody can have. */
    static Map<String, Integer> lockFinished(Connection c, Collection<String> models) throws SQLException {
        Map<String, Integer> out = new TreeMap<>();
        for (String model : new TreeSet<>(models)) {
            Integer quantity = Rows.first(c, Sql.LOCK_FINISHED, row -> row.getInt(1), model);
            out.put(model, Queries.found(quantity, "model " + model));
        }
        return out;
    }

    static boolean suffices(Map<String, Integer> stock, List<OrderLine> lines) {
        return lines.stream().allMatch(line -> stock.get(line.model()) >= line.quantity());
    }

    /** Takes the lines from what {@link #lockFinished} gave, in the database and in {@code stock}. */
    static void takeFinished(Connection c, Map<String, Integer> stock, List<OrderLine> lines) throws SQLException {
        for (OrderLine line : lines) {
            stock.merge(line.model(), -line.quantity(), Integer::sum);
        }
        Rows.batch(
                c,
                Sql.ADD_FINISHED,
                lines.stream()
                        .map(line -> new Object[] {-line.quantity(), line.model()})
                        .toList());
    }

    /** Gives the vehicles of an order to a dealer who is locked. */
    static void give(Connection c, long dealer, List<OrderLine> lines) throws SQLException {
        for (OrderLine line : lines) {
            if (Rows.update(c, Sql.ADD_STOCK, line.quantity(), dealer, line.model()) == 0) {
                Rows.update(c, Sql.INSERT_STOCK, line.quantity(), dealer, line.model());
            }
        }
    }

    /** Closes an order whose vehicles the dealer has. */
    static void shipped(Connection c, long order, LocalDateTime now) throws SQLException {
        Rows.update(c, Sql.CLOSE_ORDER, "SHIPPED", now, order);
    }
}
