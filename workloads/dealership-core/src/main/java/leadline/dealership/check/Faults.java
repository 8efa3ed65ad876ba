package leadline.dealership.check;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import leadline.common.Audit;
import leadline.common.Dialect;
import leadline.common.DriverCount;
import leadline.common.Mutants;
import leadline.dealership.data.Loader;

/**
 * Plants one fault after the other in a transaction that is rolled back, and sees which audits fail. The data must be
 * that of a run in which everything happened: shipped, open, cancelled and large orders, deliveries.
 */
public final class Faults {
    private static final String DEALERS_RATE = "dealer-transactions-have-their-rate";
    private static final String OPENING = "opening-data-are-the-generated-ones";
    private static final String PLANT_RATE = "planned-work-orders-have-their-rate";

    private static final Set<Mutants.Change> ANY = EnumSet.allOf(Mutants.Change.class);
    private static final String TIME = "a time of the host's clock; nothing else keeps it";

    /** Changes that leave the data of a right run. */
    private static final List<Mutants.Equivalent> EQUIVALENT = List.of(
            new Mutants.Equivalent("dealer", List.of("last_login_at"), ANY, "1 = 1", TIME),
            new Mutants.Equivalent("sales_order", List.of("created_at", "closed_at"), ANY, "1 = 1", TIME),
            new Mutants.Equivalent("work_order", List.of("created_at", "closed_at"), ANY, "1 = 1", TIME),
            new Mutants.Equivalent("purchase_order", List.of("sent_at"), ANY, "1 = 1", TIME),
            new Mutants.Equivalent(
                    "dealer",
                    List.of("password_hash"),
                    EnumSet.of(Mutants.Change.SHIFT),
                    "1 = 1",
                    "iterations and salt are compared; a hash is slow to make again, and a wrong one fails the log-in"),
            new Mutants.Equivalent(
                    "dealer",
                    List.of("login_count"),
                    EnumSet.of(Mutants.Change.SWAP),
                    "1 = 1",
                    "the driver counts all log-ins, not those of a dealer"),
            new Mutants.Equivalent(
                    "sales_order", List.of("command_id"), ANY, "1 = 1", "a name that the driver chose; kept once"),
            new Mutants.Equivalent(
                    "work_order", List.of("command_id"), ANY, "1 = 1", "a name that the driver chose; kept once"),
            new Mutants.Equivalent(
                    "work_order",
                    List.of("model_id", "quantity"),
                    ANY,
                    "kind = 'PLANNED' AND stage = 0",
                    "a plan for which no part was taken yet is kept nowhere else"),
            new Mutants.Equivalent(
                    "work_order",
                    List.of("id"),
                    EnumSet.of(Mutants.Change.SHIFT, Mutants.Change.SWAP),
                    "NOT EXISTS (SELECT 1 FROM part_use u WHERE u.work_order_id = work_order.id)"
                            + " AND NOT EXISTS (SELECT 1 FROM purchase_order o WHERE o.work_order_id = work_order.id)",
                    "a number to which nothing refers"),
            new Mutants.Equivalent(
                    "work_order",
                    List.of("id"),
                    EnumSet.of(Mutants.Change.SWAP),
                    "kind = 'PLANNED'",
                    "plans of the same parts, or none, may change places"),
            new Mutants.Equivalent(
                    "purchase_order",
                    List.of("id"),
                    EnumSet.of(Mutants.Change.SWAP),
                    "status = 'SENT'",
                    "the supplier counts orders, not their lines"),
            new Mutants.Equivalent(
                    "work_order",
                    List.of("stage", "advances"),
                    ANY,
                    "EXISTS (SELECT 1 FROM purchase_order o WHERE o.work_order_id = work_order.id)",
                    "how often it waited for parts is kept nowhere else"),
            new Mutants.Equivalent(
                    "purchase_order",
                    List.of("work_order_id"),
                    ANY,
                    "cause = 'REQUESTED'",
                    "for which work order an agent asked is kept nowhere else"),
            new Mutants.Equivalent(
                    "purchase_line",
                    List.of("purchase_order_id"),
                    ANY,
                    "1 = 1",
                    "the supplier counts orders, not their lines"),
            new Mutants.Equivalent(
                    "purchase_line",
                    List.of("part_id"),
                    EnumSet.of(Mutants.Change.SWAP),
                    "EXISTS (SELECT 1 FROM purchase_order o WHERE o.id = purchase_order_id AND o.cause = 'REQUESTED')",
                    "the supplier counts orders, not their lines; their sums are the stock's"),
            new Mutants.Equivalent(
                    "delivery", List.of("repeated"), ANY, "1 = 1", "the supplier does not count what it sends again"));

    /**
     * What one fault did.
     *
     * @param expected audits that must fail
     * @param failed audits that failed
     * @param planted false when the data had no row for it
     */
    public record Result(String fault, Set<String> expected, Set<String> failed, boolean planted) {
        public boolean noticed() {
            return planted && expected.equals(failed);
        }
    }

    private Faults() {}

    /** The results of all faults; on MariaDB without those that need a constraint dropped. */
    public static List<Result> run(Connection connection, Inputs inputs) throws SQLException {
        List<Fault> faults = all();
        if (Dialect.of(connection) == Dialect.POSTGRESQL) {
            faults.add(commandTwice());
        }
        List<Result> out = new ArrayList<>();
        for (Fault fault : faults) {
            connection.rollback();
            boolean planted = true;
            try (Statement statement = connection.createStatement()) {
                for (String sql : fault.statements()) {
                    int rows = statement.executeUpdate(sql);
                    planted &= rows > 0 || sql.startsWith("ALTER");
                }
            }
            Set<String> failed = new TreeSet<>();
            for (Audit audit : Audits.run(connection, fault.inputs().apply(inputs))) {
                if (!audit.passed()) {
                    failed.add(audit.name());
                }
            }
            connection.rollback();
            out.add(new Result(fault.name(), new TreeSet<>(fault.audits()), failed, planted));
        }
        return out;
    }

    /** The results of all mutants of the data; {@code seed} chooses their rows. */
    public static List<Mutants.Result> mutants(Connection connection, Inputs inputs, long seed) throws SQLException {
        Inputs exact = Audits.exact(connection, inputs);
        return Mutants.run(connection, Loader.SCHEMA, EQUIVALENT, seed, () -> Audits.run(connection, exact));
    }

    static List<Fault> all() {
        List<Fault> out = new ArrayList<>();
        out.add(Fault.data(
                "the data of another seed",
                "UPDATE generation SET seed = seed + 1",
                "data-is-the-generated-one",
                OPENING));
        dealers(out);
        orders(out);
        work(out);
        parts(out);
        counts(out);
        rates(out);
        return out;
    }

    /** The one fault that a constraint keeps out. */
    private static Fault commandTwice() {
        return Fault.data(
                "a command carried out twice",
                List.of(
                        "ALTER TABLE work_order DROP CONSTRAINT work_order_command_id_key",
                        "UPDATE work_order SET command_id = (SELECT MIN(command_id) FROM work_order)"
                                + " WHERE id = (SELECT MAX(id) FROM work_order WHERE kind = 'PLANNED')"),
                "no-command-has-two-effects");
    }

    private static void dealers(List<Fault> out) {
        out.add(Fault.data(
                "an entry lost from the ledger",
                "DELETE FROM ledger_entry WHERE book = 'REVENUE' AND order_id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE status = 'SHIPPED')",
                "ledger-sums-to-zero",
                "entries-are-what-the-order-cost"));
        out.add(Fault.data(
                "a lost update of a balance",
                "UPDATE dealer SET balance = balance + 1 WHERE id = 1",
                "balance-is-opening-plus-entries"));
        out.add(Fault.data(
                "a dealer beyond the credit",
                "UPDATE dealer SET opening_balance = opening_balance - balance - credit_limit - 1,"
                        + " balance = -credit_limit - 1 WHERE id = 1",
                "credit-is-kept",
                OPENING));
        out.add(Fault.data(
                "vehicles shipped twice",
                "UPDATE dealer_stock SET quantity = quantity + 1 WHERE dealer_id = 1",
                "dealer-stock-is-opening-plus-bought-minus-sold"));
        out.add(Fault.data(
                "more sold than there was",
                "UPDATE dealer_stock SET opening = opening - quantity - 1000, quantity = -1000 WHERE dealer_id = 1",
                "nothing-is-negative",
                OPENING));
        out.add(Fault.data(
                "a row of the stock lost with its opening",
                "DELETE FROM dealer_stock WHERE dealer_id = 1 AND opening = quantity",
                OPENING));
        out.add(Fault.data(
                "a log-in without its time",
                "UPDATE dealer SET last_login_at = NULL WHERE id = (SELECT MIN(id) FROM dealer WHERE login_count > 0)",
                "log-ins-have-a-time"));
        out.add(Fault.data(
                "a sale in no known state",
                "UPDATE sales_order SET status = 'LOST' WHERE id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE kind = 'SALE')",
                "orders-are-in-a-known-state",
                "dealer-stock-is-opening-plus-bought-minus-sold"));
    }

    private static void orders(List<Fault> out) {
        out.add(Fault.data(
                "a total that is not the lines'",
                "UPDATE sales_order SET total = total + 1 WHERE id = (SELECT MIN(id) FROM sales_order)",
                "order-totals-are-their-lines",
                "entries-are-what-the-order-cost"));
        out.add(Fault.data(
                "a price read from a stale cache",
                List.of(
                        "UPDATE order_line SET price = price - 1 WHERE order_id = (SELECT MIN(id) FROM sales_order)",
                        "UPDATE sales_order SET total = (SELECT SUM(l.quantity * l.price) FROM order_line l"
                                + " WHERE l.order_id = sales_order.id) WHERE id = (SELECT MIN(order_id) FROM order_line)"),
                "lines-have-the-price-of-the-list",
                "entries-are-what-the-order-cost"));
        out.add(Fault.data(
                "a cancelled order that was not paid back",
                "DELETE FROM ledger_entry WHERE reason = 'REFUND' AND order_id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE status = 'CANCELLED')",
                "cancelled-orders-leave-nothing",
                "entries-are-what-the-order-cost",
                "balance-is-opening-plus-entries",
                "rows-are-counts-manage_cancel"));
        out.add(Fault.data(
                "a waiting order that was forgotten",
                "DELETE FROM back_order WHERE order_id = (SELECT MIN(order_id) FROM back_order)",
                "orders-wait-while-they-are-open"));
        out.add(Fault.data(
                "a sale taken for a large order",
                "UPDATE sales_order SET large = TRUE WHERE id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE kind = 'SALE')",
                "large-orders-begin-at-100-vehicles"));
        out.add(Fault.data(
                "a line lost from a sale's numbers",
                "UPDATE order_line SET line = 2 WHERE order_id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE kind = 'SALE')",
                "order-lines-are-numbered"));
        out.add(Fault.data(
                "a closed work order without its time",
                "UPDATE work_order SET closed_at = NULL WHERE id = (SELECT MIN(id) FROM work_order"
                        + " WHERE status = 'COMPLETED')",
                "closed-is-what-has-a-closing-time"));
        out.add(Fault.data(
                "a rolled-back order that left its row",
                "UPDATE sales_order SET command_id = 'rollback-1' WHERE id = (SELECT MIN(id) FROM sales_order)",
                "nothing-rolled-back-is-left"));
        out.add(Fault.data(
                "small orders of too many vehicles",
                "UPDATE order_line SET quantity = quantity + 10 WHERE order_id IN (SELECT id FROM sales_order"
                        + " WHERE kind = 'ORDER' AND NOT large)",
                "vehicles-of-small-orders-are-14",
                "order-totals-are-their-lines",
                "dealer-stock-is-opening-plus-bought-minus-sold",
                "finished-stock-is-opening-plus-completed-minus-shipped"));
        out.add(Fault.data(
                "large orders of too many vehicles",
                "UPDATE order_line SET quantity = quantity + 200 WHERE order_id IN (SELECT id FROM sales_order"
                        + " WHERE kind = 'ORDER' AND large)",
                "vehicles-of-large-orders-are-140",
                "order-totals-are-their-lines",
                "large-orders-have-work-orders",
                "dealer-stock-is-opening-plus-bought-minus-sold"));
    }

    private static void work(List<Fault> out) {
        out.add(Fault.data(
                "a work order for another quantity",
                "UPDATE work_order SET quantity = quantity + 1 WHERE id = (SELECT MIN(id) FROM work_order"
                        + " WHERE kind = 'LARGE' AND status IN ('SCHEDULED', 'CANCELLED'))",
                "large-orders-have-work-orders"));
        out.add(Fault.data(
                "an open work order counted twice",
                "UPDATE sales_order SET open_work = open_work + 1 WHERE id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE large)",
                "open-work-is-counted"));
        out.add(Fault.data(
                "a claimed order that still looks open",
                "UPDATE sales_order SET status = 'OPEN' WHERE id = (SELECT MIN(id) FROM sales_order"
                        + " WHERE status = 'PRODUCING')",
                "large-orders-follow-their-work"));
        out.add(Fault.data(
                "a stage that was skipped",
                "UPDATE work_order SET stage = 2 WHERE id = (SELECT MIN(id) FROM work_order"
                        + " WHERE status = 'COMPLETED' AND id NOT IN (SELECT work_order_id FROM purchase_order))",
                "work-order-stages-are-legal",
                "advances-are-stages-and-waits"));
        out.add(new Fault(
                "an advance counted twice",
                List.of("UPDATE work_order SET advances = advances + 1 WHERE id = (SELECT MIN(id) FROM work_order"
                        + " WHERE id NOT IN (SELECT work_order_id FROM purchase_order))"),
                in -> with(in, "advance", c -> new DriverCount(c.ok() + 1, c.failed())),
                Set.of("advances-are-stages-and-waits")));
        out.add(Fault.data(
                "a work order completed twice",
                "UPDATE work_order SET completed_quantity = completed_quantity + quantity WHERE id = (SELECT MIN(id)"
                        + " FROM work_order WHERE status = 'COMPLETED' AND kind = 'PLANNED')",
                "completed-vehicles-fit-their-work-order",
                "finished-stock-is-opening-plus-completed-minus-shipped"));
        out.add(Fault.data(
                "a finished vehicle that nobody built",
                "UPDATE finished_stock SET quantity = quantity + 1 WHERE model_id = 'M0001'",
                "finished-stock-is-opening-plus-completed-minus-shipped"));
        out.add(Fault.data(
                "a reserved vehicle that nobody waits for",
                "UPDATE finished_stock SET reserved = reserved + 1 WHERE model_id = 'M0001'",
                "reserved-vehicles-wait-for-their-order"));
    }

    private static void parts(List<Fault> out) {
        out.add(Fault.data(
                "a part taken and not written down",
                "DELETE FROM part_use WHERE work_order_id = (SELECT MIN(work_order_id) FROM part_use)",
                "parts-used-are-bills-of-materials",
                "part-stock-is-opening-plus-delivered-minus-used"));
        out.add(Fault.data(
                "parts back from completed work",
                "UPDATE part_use SET returned = quantity WHERE work_order_id = (SELECT MIN(id) FROM work_order"
                        + " WHERE status = 'COMPLETED')",
                "parts-come-back-from-cancelled-work-only",
                "part-stock-is-opening-plus-delivered-minus-used"));
        out.add(Fault.data(
                "a part lost from the stock",
                "UPDATE part_stock SET on_hand = on_hand + 1 WHERE part_id = 'P00001'",
                "part-stock-is-opening-plus-delivered-minus-used"));
        out.add(Fault.data(
                "a part on order that nobody ordered",
                "UPDATE part_stock SET on_order = on_order + 1 WHERE part_id = 'P00001'",
                "parts-on-order-are-those-not-delivered"));
        String order = "(SELECT MIN(id) FROM purchase_order WHERE cause = 'MISSING' AND status = 'DELIVERED')";
        String part = "(SELECT MIN(part_id) FROM purchase_line WHERE purchase_order_id = " + order + ")";
        out.add(Fault.data(
                "more parts than were missing",
                List.of(
                        "UPDATE part_stock SET on_hand = on_hand + 1 WHERE part_id = " + part,
                        "UPDATE purchase_line SET quantity = quantity + 1, delivered = delivered + 1"
                                + " WHERE purchase_order_id = " + order + " AND part_id = " + part),
                "missing-parts-are-ordered-by-the-bill"));
        out.add(Fault.data(
                "a delivery taken in twice",
                List.of(
                        "UPDATE part_stock SET on_hand = on_hand + (SELECT l.quantity FROM purchase_line l"
                                + " WHERE l.purchase_order_id = (SELECT MIN(purchase_order_id) FROM delivery)"
                                + " AND l.part_id = part_stock.part_id) WHERE part_id IN (SELECT part_id"
                                + " FROM purchase_line WHERE purchase_order_id ="
                                + " (SELECT MIN(purchase_order_id) FROM delivery))",
                        "UPDATE purchase_line SET delivered = 2 * quantity WHERE purchase_order_id ="
                                + " (SELECT MIN(purchase_order_id) FROM delivery)"),
                "deliveries-have-one-effect"));
        out.add(Fault.data(
                "an order sent to the wrong supplier",
                "UPDATE purchase_order SET supplier_id = CASE supplier_id WHEN 1 THEN 2 ELSE 1 END"
                        + " WHERE id = (SELECT MIN(id) FROM purchase_order)",
                "purchase-orders-are-whole"));
    }

    private static void counts(List<Fault> out) {
        out.add(Fault.counts(
                "a purchase order that never reached the supplier",
                in -> supplier(in, -1, 0),
                "supplier-has-the-purchase-orders"));
        out.add(Fault.counts("a lost delivery", in -> supplier(in, 0, 1), "deliveries-are-the-suppliers"));
        for (String transaction : Audits.written()) {
            out.add(Fault.counts(
                    "a lost " + transaction,
                    in -> with(in, transaction, c -> new DriverCount(c.ok() + c.failed() + 1, 0)),
                    "rows-are-counts-" + transaction));
        }
        out.add(Fault.counts(
                "a driver that only browses",
                in -> with(in, "browse", c -> new DriverCount(c.ok() * 3, c.failed())),
                "mix-is-the-one-asked-for"));
        out.add(Fault.counts(
                "a driver that asks for large orders only",
                in -> {
                    long n = 3 * in.asked("purchase", "purchase_large");
                    Inputs more = with(in, "purchase_large", c -> new DriverCount(c.ok(), c.failed() + n));
                    more = with(more, "manage_sell", c -> new DriverCount(c.ok(), c.failed() + n));
                    return with(more, "browse", c -> new DriverCount(c.ok(), c.failed() + 2 * n));
                },
                "large-orders-are-a-tenth"));
    }

    /** Faults of a driver whose agents are not those that were asked for. */
    private static void rates(List<Fault> out) {
        out.add(Fault.counts("dealers who ask four times as often", in -> cycles(in, 4, 1), DEALERS_RATE));
        out.add(Fault.counts("dealers who ask a quarter as often", in -> cycles(in, 0.25, 1), DEALERS_RATE));
        out.add(Fault.counts("a plant that plans four times as often", in -> cycles(in, 1, 4), PLANT_RATE));
        out.add(Fault.counts("a plant that plans a quarter as often", in -> cycles(in, 1, 0.25), PLANT_RATE));
    }

    /** What is expected falls by these factors, so what was asked for is too much by them. */
    private static Inputs cycles(Inputs in, double dealers, double plant) {
        Load l = in.load();
        Load slower = new Load(
                l.injectionRate(),
                l.dealerCycle() * dealers,
                l.plantCycle() * plant,
                l.seconds(),
                l.waiting(),
                l.asked());
        return new Inputs(in.scale(), in.seed(), in.counts(), in.supplier(), slower);
    }

    private static Inputs supplier(Inputs in, long received, long delivered) {
        SupplierCount s = in.supplier();
        return new Inputs(
                in.scale(),
                in.seed(),
                in.counts(),
                new SupplierCount(s.received() + received, s.delivered() + delivered, s.pending(), s.failed()),
                in.load());
    }

    private static Inputs with(Inputs in, String transaction, UnaryOperator<DriverCount> change) {
        Map<String, DriverCount> counts = new LinkedHashMap<>(in.counts());
        counts.put(transaction, change.apply(in.count(transaction)));
        return new Inputs(in.scale(), in.seed(), counts, in.supplier(), in.load());
    }
}
