package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import leadline.common.Rows;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.Checks;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.OrderLine;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.ScheduleCommand;
import leadline.dealership.domain.WorkKind;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkState;

/** What the plant changes, on a connection whose transaction somebody else ends. Lock order: see {@link Sales}. */
public final class Plant {
    /** Orders that one completed work order can fill, at most. */
    private static final int MOST_FILLED = 3;

    /** Whom the vehicles of a work order are for; order and dealer are null for a PLANNED one. */
    private record Purpose(Long order, Long dealer, String model) {}

    private record Waiting(long order, long dealer) {}

    private Plant() {}

    public static WorkOrder schedule(Connection c, ScheduleCommand command) throws SQLException {
        Checks.quantity(command.quantity());
        Checks.model(command.model());
        if (Checks.command(command.command()) != null) {
            WorkOrder before = Rows.first(c, Sql.WORK_BY_COMMAND, Readers::work, command.command());
            if (before != null) {
                return before;
            }
        }
        Queries.found(Rows.first(c, Sql.PRICE, row -> row.getLong(1), command.model()), "model " + command.model());
        try {
            long id = Rows.insert(
                    c,
                    Sql.INSERT_WORK,
                    "PLANNED",
                    JDBCType.BIGINT,
                    JDBCType.INTEGER,
                    command.model(),
                    command.quantity(),
                    command.command() == null ? JDBCType.VARCHAR : command.command(),
                    Readers.now());
            return Queries.work(c, id);
        } catch (SQLException e) {
            if (Rows.isDuplicate(e)) {
                throw DealershipException.conflict("command " + command.command() + " is being carried out just now");
            }
            throw e;
        }
    }

    public static Advance advance(Connection c, long id) throws SQLException {
        WorkOrder work = lockWork(c, id);
        if (work.state().closed() || work.stage() == Dealership.LAST_STAGE) {
            throw DealershipException.conflict(
                    "work order " + id + " is " + work.state() + " at stage " + work.stage());
        }
        if (work.kind() == WorkKind.LARGE && work.state() == WorkState.SCHEDULED) {
            throw DealershipException.conflict("work order " + id + " is for a large order and was not claimed");
        }
        List<PartLine> missing = work.stage() == 0 ? takeParts(c, work) : List.of();
        PurchaseOrder ordered = null;
        if (missing.isEmpty()) {
            Rows.update(c, Sql.ADVANCE_WORK, work.stage() + 1, "RUNNING", 1, id);
        } else {
            Rows.update(c, Sql.ADVANCE_WORK, 0, work.state().name(), 1, id);
            if (Rows.first(c, Sql.SENT_FOR_WORK, row -> row.getLong(1), id) == 0) {
                ordered = PurchaseOrders.insert(c, work, missing, "MISSING");
            }
        }
        return new Advance(Queries.work(c, id), ordered);
    }

    /** Takes the parts of all vehicles, or nothing: then the parts to order, enough for these and for a while. */
    private static List<PartLine> takeParts(Connection c, WorkOrder work) throws SQLException {
        record Part(int onHand, int opening) {}
        List<PartLine> needed = Rows.list(c, Sql.BILL, Readers::part, work.model()).stream()
                .map(line -> new PartLine(line.part(), line.quantity() * work.quantity()))
                .toList();
        List<PartLine> missing = new ArrayList<>();
        for (PartLine line : needed) {
            Part part = Rows.first(c, Sql.LOCK_PART, row -> new Part(row.getInt(1), row.getInt(2)), line.part());
            if (part.onHand() < line.quantity()) {
                missing.add(new PartLine(line.part(), line.quantity() + part.opening() / 2));
            }
        }
        if (missing.isEmpty()) {
            Rows.batch(
                    c,
                    Sql.ADD_PART,
                    needed.stream()
                            .map(line -> new Object[] {-line.quantity(), line.part()})
                            .toList());
            Rows.batch(
                    c,
                    Sql.INSERT_USE,
                    needed.stream()
                            .map(line -> new Object[] {work.id(), line.part(), line.quantity()})
                            .toList());
        }
        return missing;
    }

    public static WorkOrder complete(Connection c, long id, int quantity) throws SQLException {
        Checks.quantity(quantity);
        Purpose purpose = Queries.found(
                Rows.first(
                        c,
                        Sql.WORK_PURPOSE,
                        row -> new Purpose(
                                row.getObject(1, Long.class), row.getObject(2, Long.class), row.getString(3)),
                        id),
                "work order " + id);
        if (purpose.order() == null) {
            completePlanned(c, id, quantity, purpose.model());
        } else {
            completeLarge(c, id, quantity, purpose);
        }
        return Queries.work(c, id);
    }

    private static void completePlanned(Connection c, long id, int quantity, String model) throws SQLException {
        List<Waiting> waiting = Rows.list(
                c, Sql.WAITING_ORDERS, row -> new Waiting(row.getLong(1), row.getLong(2)), model, MOST_FILLED);
        for (long dealer : new TreeSet<>(waiting.stream().map(Waiting::dealer).toList())) {
            Sales.lock(c, dealer);
        }
        completable(lockWork(c, id), quantity);
        Map<Long, List<OrderLine>> open = new TreeMap<>();
        for (Waiting order : waiting) {
            if (Sales.lockOrder(c, order.order()).status() == OrderStatus.OPEN) {
                open.put(order.order(), Rows.list(c, Sql.LINES, Readers::line, order.order()));
            }
        }
        TreeSet<String> models = new TreeSet<>(List.of(model));
        open.values().forEach(lines -> lines.forEach(line -> models.add(line.model())));
        Map<String, Integer> stock = Stock.lockFinished(c, models);
        LocalDateTime now = Readers.now();
        Rows.update(c, Sql.CLOSE_WORK, "COMPLETED", quantity, now, id);
        Rows.update(c, Sql.ADD_FINISHED, quantity, model);
        stock.merge(model, quantity, Integer::sum);
        for (Waiting order : waiting) {
            List<OrderLine> lines = open.get(order.order());
            if (lines != null && Stock.suffices(stock, lines)) {
                Stock.takeFinished(c, stock, lines);
                Stock.give(c, order.dealer(), lines);
                Stock.shipped(c, order.order(), now);
                Rows.update(c, Sql.DELETE_BACK_ORDERS, order.order());
            }
        }
    }

    private static void completeLarge(Connection c, long id, int quantity, Purpose purpose) throws SQLException {
        Sales.lock(c, purpose.dealer());
        WorkOrder work = lockWork(c, id);
        completable(work, quantity);
        if (quantity != work.quantity()) {
            throw DealershipException.bad("work order " + id + " is for a large order: quantity must be "
                    + work.quantity() + ", got " + quantity);
        }
        Sales.Locked order = Sales.lockOrder(c, purpose.order());
        List<OrderLine> lines = Rows.list(c, Sql.LINES, Readers::line, purpose.order());
        boolean last = order.openWork() == 1;
        Stock.lockFinished(c, last ? lines.stream().map(OrderLine::model).toList() : List.of(purpose.model()));
        LocalDateTime now = Readers.now();
        Rows.update(c, Sql.CLOSE_WORK, "COMPLETED", quantity, now, id);
        Rows.update(c, Sql.SET_OPEN_WORK, order.openWork() - 1, purpose.order());
        Rows.update(c, Sql.ADD_RESERVED, quantity, purpose.model());
        if (last) {
            Rows.batch(
                    c,
                    Sql.ADD_RESERVED,
                    lines.stream()
                            .map(line -> new Object[] {-line.quantity(), line.model()})
                            .toList());
            Stock.give(c, purpose.dealer(), lines);
            Stock.shipped(c, purpose.order(), now);
        }
    }

    private static void completable(WorkOrder work, int quantity) {
        if (work.state() != WorkState.RUNNING || work.stage() != Dealership.LAST_STAGE) {
            throw DealershipException.conflict(
                    "work order " + work.id() + " is " + work.state() + " at stage " + work.stage());
        }
        if (quantity > work.quantity()) {
            throw DealershipException.bad("quantity must be 1 to " + work.quantity() + ", got " + quantity);
        }
    }

    public static WorkOrder cancel(Connection c, long id) throws SQLException {
        WorkOrder work = lockWork(c, id);
        if (work.state().closed() || work.kind() == WorkKind.LARGE) {
            throw DealershipException.conflict("work order " + id + " is " + work.state() + " and " + work.kind());
        }
        if (work.stage() > 0) {
            Rows.batch(
                    c,
                    Sql.ADD_PART,
                    Rows.list(c, Sql.USES, Readers::part, id).stream()
                            .map(line -> new Object[] {line.quantity(), line.part()})
                            .toList());
            Rows.update(c, Sql.RETURN_USES, id);
        }
        Rows.update(c, Sql.CLOSE_WORK, "CANCELLED", 0, Readers.now(), id);
        return Queries.work(c, id);
    }

    public static Optional<WorkOrder> claimLarge(Connection c) throws SQLException {
        WorkOrder work = Rows.first(c, Sql.CLAIM, Readers::work);
        if (work == null) {
            return Optional.empty();
        }
        Rows.update(c, Sql.ADVANCE_WORK, 0, "RUNNING", 0, work.id());
        Rows.update(c, Sql.START_ORDER, work.salesOrder());
        return Optional.of(Queries.work(c, work.id()));
    }

    static WorkOrder lockWork(Connection c, long id) throws SQLException {
        return Queries.found(Rows.first(c, Sql.LOCK_WORK, Readers::work, id), "work order " + id);
    }
}
