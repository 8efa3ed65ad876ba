package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.Comparator;
import java.util.List;
import leadline.common.Rows;
import leadline.dealership.domain.Checks;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Delivery;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.PurchaseStatus;
import leadline.dealership.domain.WorkOrder;

/** Parts ordered and delivered, on a connection whose transaction somebody else ends. Lock order: {@link Sales}. */
public final class PurchaseOrders {
    private PurchaseOrders() {}

    public static PurchaseOrder request(Connection c, long workOrder, List<PartLine> lines) throws SQLException {
        List<PartLine> wanted = byPart(Checks.parts(lines));
        WorkOrder work = Plant.lockWork(c, workOrder);
        if (work.state().closed()) {
            throw DealershipException.conflict("work order " + workOrder + " is " + work.state());
        }
        for (PartLine line : wanted) {
            Queries.found(Rows.first(c, Sql.LOCK_PART, row -> row.getInt(1), line.part()), "part " + line.part());
        }
        return insert(c, work, wanted, "REQUESTED");
    }

    /** The lines by part, whose stocks are locked. */
    static PurchaseOrder insert(Connection c, WorkOrder work, List<PartLine> lines, String cause) throws SQLException {
        long supplier = Rows.first(c, Sql.SUPPLIER, row -> row.getLong(1), work.model());
        LocalDateTime now = Readers.now();
        long id = Rows.insert(c, Sql.INSERT_PURCHASE, supplier, work.id(), cause, now);
        Rows.batch(
                c,
                Sql.INSERT_PURCHASE_LINE,
                lines.stream()
                        .map(line -> new Object[] {id, line.part(), line.quantity()})
                        .toList());
        Rows.batch(
                c,
                Sql.ADD_ON_ORDER,
                lines.stream()
                        .map(line -> new Object[] {line.quantity(), line.part()})
                        .toList());
        return new PurchaseOrder(id, supplier, work.id(), PurchaseStatus.SENT, now, null, lines);
    }

    public static Delivery deliver(Connection c, long id, List<PartLine> lines) throws SQLException {
        List<PartLine> came = byPart(Checks.parts(lines));
        String status =
                Queries.found(Rows.first(c, Sql.LOCK_PURCHASE, row -> row.getString(1), id), "purchase order " + id);
        if (!Rows.list(c, Sql.PURCHASE_LINES, Readers::part, id).equals(came)) {
            throw DealershipException.bad("the lines are not those of purchase order " + id);
        }
        if (PurchaseStatus.valueOf(status) == PurchaseStatus.DELIVERED) {
            Rows.update(c, Sql.REPEAT_DELIVERY, id);
            return new Delivery(id, true);
        }
        LocalDateTime now = Readers.now();
        Rows.batch(
                c,
                Sql.RECEIVE_PART,
                came.stream()
                        .map(line -> new Object[] {line.quantity(), line.quantity(), line.part()})
                        .toList());
        Rows.update(c, Sql.RECEIVE_LINES, id);
        Rows.update(c, Sql.CLOSE_PURCHASE, now, id);
        Rows.update(c, Sql.INSERT_DELIVERY, id, now);
        return new Delivery(id, false);
    }

    private static List<PartLine> byPart(List<PartLine> lines) {
        return lines.stream().sorted(Comparator.comparing(PartLine::part)).toList();
    }
}
