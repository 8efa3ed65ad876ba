package leadline.dealership.check;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Audits that hold for any state; each statement counts what is wrong. */
final class Statements {
    private static final String GAINED = "(SELECT o.dealer_id, l.model_id, SUM(CASE o.status"
            + " WHEN 'SHIPPED' THEN l.quantity WHEN 'SOLD' THEN -l.quantity ELSE 0 END) AS gained,"
            + " SUM(CASE o.status WHEN 'SHIPPED' THEN l.quantity ELSE 0 END) AS bought"
            + " FROM sales_order o JOIN order_line l ON l.order_id = o.id GROUP BY o.dealer_id, l.model_id) AS g";
    private static final String VEHICLES =
            "(SELECT order_id, SUM(quantity) AS vehicles FROM order_line GROUP BY order_id) AS v";
    private static final String BILL_OF_STARTED = "(SELECT w.id, b.part_id, b.quantity * w.quantity AS quantity"
            + " FROM work_order w JOIN bill_of_materials b ON b.model_id = w.model_id WHERE w.stage > 0) AS n";

    static final Map<String, List<String>> WRONG_ROWS = all();

    private Statements() {}

    private static Map<String, List<String>> all() {
        Map<String, List<String>> out = new LinkedHashMap<>();
        out.put(
                "ledger-sums-to-zero",
                List.of("SELECT COUNT(*) FROM (SELECT order_id FROM ledger_entry GROUP BY order_id, reason"
                        + " HAVING SUM(amount) <> 0 OR COUNT(*) <> 2 OR MIN(book) <> 'CASH'"
                        + " OR MAX(book) <> 'REVENUE') AS wrong"));
        out.put(
                "balance-is-opening-plus-entries",
                List.of("SELECT COUNT(*) FROM dealer d LEFT JOIN (SELECT dealer_id, SUM(amount) AS total"
                        + " FROM ledger_entry WHERE book = 'CASH' GROUP BY dealer_id) AS e ON e.dealer_id = d.id"
                        + " WHERE d.balance <> d.opening_balance + COALESCE(e.total, 0)"));
        out.put("credit-is-kept", List.of("SELECT COUNT(*) FROM dealer WHERE balance < -credit_limit"));
        out.put(
                "dealer-stock-is-opening-plus-bought-minus-sold",
                List.of(
                        "SELECT COUNT(*) FROM dealer_stock s LEFT JOIN " + GAINED
                                + " ON g.dealer_id = s.dealer_id AND g.model_id = s.model_id"
                                + " WHERE s.quantity <> s.opening + COALESCE(g.gained, 0)"
                                + " OR (s.opening = 0 AND COALESCE(g.bought, 0) = 0)",
                        "SELECT COUNT(*) FROM " + GAINED + " LEFT JOIN dealer_stock s"
                                + " ON s.dealer_id = g.dealer_id AND s.model_id = g.model_id"
                                + " WHERE (g.gained <> 0 OR g.bought > 0) AND s.dealer_id IS NULL"));
        out.put(
                "nothing-is-negative",
                List.of(
                        "SELECT COUNT(*) FROM dealer_stock WHERE quantity < 0",
                        "SELECT COUNT(*) FROM finished_stock WHERE quantity < 0 OR reserved < 0",
                        "SELECT COUNT(*) FROM part_stock WHERE on_hand < 0 OR on_order < 0",
                        "SELECT COUNT(*) FROM order_line WHERE quantity <= 0 OR price <= 0",
                        "SELECT COUNT(*) FROM work_order WHERE quantity <= 0 OR completed_quantity < 0"
                                + " OR advances < stage",
                        "SELECT COUNT(*) FROM purchase_line WHERE quantity <= 0 OR delivered < 0",
                        "SELECT COUNT(*) FROM delivery WHERE repeated < 0",
                        "SELECT COUNT(*) FROM dealer WHERE login_count < 0"));
        out.put(
                "log-ins-have-a-time",
                List.of("SELECT COUNT(*) FROM dealer WHERE (login_count = 0) <> (last_login_at IS NULL)"));
        orders(out);
        work(out);
        parts(out);
        return out;
    }

    private static void orders(Map<String, List<String>> out) {
        out.put(
                "orders-are-in-a-known-state",
                List.of("SELECT COUNT(*) FROM sales_order WHERE NOT ((kind = 'ORDER'"
                        + " AND status IN ('OPEN', 'PRODUCING', 'SHIPPED', 'CANCELLED'))"
                        + " OR (kind = 'SALE' AND status = 'SOLD'))"));
        out.put(
                "order-totals-are-their-lines",
                List.of("SELECT COUNT(*) FROM sales_order o LEFT JOIN (SELECT order_id, SUM(quantity * price) AS total"
                        + " FROM order_line GROUP BY order_id) AS l ON l.order_id = o.id"
                        + " WHERE l.total IS NULL OR l.total <> o.total"));
        out.put(
                "order-lines-are-numbered",
                List.of("SELECT COUNT(*) FROM (SELECT order_id FROM order_line GROUP BY order_id"
                        + " HAVING MIN(line) <> 1 OR MAX(line) <> COUNT(*)) AS wrong"));
        out.put(
                "lines-have-the-price-of-the-list",
                List.of("SELECT COUNT(*) FROM order_line l JOIN sales_order o ON o.id = l.order_id"
                        + " JOIN model m ON m.id = l.model_id WHERE l.price <> m.price"
                        + " + CASE o.kind WHEN 'SALE' THEN FLOOR(m.price / 10) ELSE 0 END"));
        out.put(
                "entries-are-what-the-order-cost",
                List.of("SELECT COUNT(*) FROM sales_order o LEFT JOIN (SELECT order_id, COUNT(*) AS entries,"
                        + " MIN(dealer_id) AS first_dealer, MAX(dealer_id) AS last_dealer,"
                        + " SUM(CASE WHEN book = 'CASH' AND reason = 'PURCHASE' THEN amount ELSE 0 END) AS paid,"
                        + " SUM(CASE WHEN book = 'CASH' AND reason = 'SALE' THEN amount ELSE 0 END) AS earned,"
                        + " SUM(CASE WHEN book = 'CASH' AND reason = 'REFUND' THEN amount ELSE 0 END) AS refunded"
                        + " FROM ledger_entry GROUP BY order_id) AS e ON e.order_id = o.id"
                        + " WHERE e.order_id IS NULL OR e.first_dealer <> o.dealer_id OR e.last_dealer <> o.dealer_id"
                        + " OR e.entries <> CASE o.status WHEN 'CANCELLED' THEN 4 ELSE 2 END"
                        + " OR e.paid <> CASE o.kind WHEN 'ORDER' THEN -o.total ELSE 0 END"
                        + " OR e.earned <> CASE o.kind WHEN 'SALE' THEN o.total ELSE 0 END"
                        + " OR e.refunded <> CASE o.status WHEN 'CANCELLED' THEN o.total ELSE 0 END"));
        out.put(
                "cancelled-orders-leave-nothing",
                List.of(
                        "SELECT COUNT(*) FROM (SELECT o.id FROM sales_order o JOIN ledger_entry e ON e.order_id = o.id"
                                + " WHERE o.status = 'CANCELLED' AND e.book = 'CASH' GROUP BY o.id"
                                + " HAVING SUM(e.amount) <> 0) AS wrong",
                        "SELECT COUNT(*) FROM sales_order o JOIN work_order w ON w.sales_order_id = o.id"
                                + " WHERE o.status = 'CANCELLED' AND (w.status <> 'CANCELLED' OR w.stage <> 0)"));
        out.put(
                "orders-wait-while-they-are-open",
                List.of(
                        "SELECT COUNT(*) FROM sales_order o JOIN order_line l ON l.order_id = o.id LEFT JOIN back_order b"
                                + " ON b.order_id = l.order_id AND b.model_id = l.model_id WHERE o.kind = 'ORDER'"
                                + " AND NOT o.large AND o.status = 'OPEN' AND b.order_id IS NULL",
                        "SELECT COUNT(*) FROM back_order b JOIN sales_order o ON o.id = b.order_id LEFT JOIN order_line l"
                                + " ON l.order_id = b.order_id AND l.model_id = b.model_id"
                                + " WHERE o.status <> 'OPEN' OR o.large OR l.order_id IS NULL",
                        "SELECT COUNT(*) FROM sales_order WHERE NOT large AND status = 'PRODUCING'"));
        out.put(
                "large-orders-begin-at-100-vehicles",
                List.of("SELECT COUNT(*) FROM sales_order o JOIN " + VEHICLES + " ON v.order_id = o.id"
                        + " WHERE o.large <> (o.kind = 'ORDER' AND v.vehicles >= 100)"));
        out.put(
                "closed-is-what-has-a-closing-time",
                List.of(
                        "SELECT COUNT(*) FROM sales_order WHERE (status IN ('OPEN', 'PRODUCING'))"
                                + " <> (closed_at IS NULL)",
                        "SELECT COUNT(*) FROM work_order WHERE (status IN ('SCHEDULED', 'RUNNING'))"
                                + " <> (closed_at IS NULL)"));
        out.put(
                "nothing-rolled-back-is-left",
                List.of("SELECT COUNT(*) FROM sales_order WHERE command_id LIKE 'rollback-%'"));
        out.put(
                "no-command-has-two-effects",
                List.of(
                        "SELECT COUNT(*) FROM (SELECT command_id FROM sales_order WHERE command_id IS NOT NULL"
                                + " GROUP BY dealer_id, command_id HAVING COUNT(*) > 1) AS wrong",
                        "SELECT COUNT(*) FROM (SELECT command_id FROM work_order WHERE command_id IS NOT NULL"
                                + " GROUP BY command_id HAVING COUNT(*) > 1) AS wrong"));
    }

    private static void work(Map<String, List<String>> out) {
        out.put(
                "large-orders-have-work-orders",
                List.of(
                        "SELECT COUNT(*) FROM sales_order o JOIN order_line l ON l.order_id = o.id"
                                + " LEFT JOIN work_order w ON w.sales_order_id = o.id AND w.line = l.line"
                                + " AND w.kind = 'LARGE' AND w.model_id = l.model_id AND w.quantity = l.quantity"
                                + " WHERE o.kind = 'ORDER' AND o.large AND w.id IS NULL",
                        "SELECT COUNT(*) FROM work_order w LEFT JOIN sales_order o ON o.id = w.sales_order_id"
                                + " AND o.large LEFT JOIN order_line l ON l.order_id = o.id AND l.line = w.line"
                                + " WHERE (w.kind = 'LARGE') <> (l.order_id IS NOT NULL)"));
        out.put(
                "open-work-is-counted",
                List.of("SELECT COUNT(*) FROM sales_order o LEFT JOIN (SELECT sales_order_id,"
                        + " SUM(CASE status WHEN 'COMPLETED' THEN 0 ELSE 1 END) AS n FROM work_order"
                        + " WHERE kind = 'LARGE' GROUP BY sales_order_id) AS w ON w.sales_order_id = o.id"
                        + " WHERE o.open_work <> COALESCE(w.n, 0)"));
        out.put(
                "large-orders-follow-their-work",
                List.of("SELECT COUNT(*) FROM sales_order o JOIN (SELECT sales_order_id, COUNT(*) AS n,"
                        + " SUM(CASE status WHEN 'SCHEDULED' THEN 1 ELSE 0 END) AS scheduled,"
                        + " SUM(CASE status WHEN 'COMPLETED' THEN 1 ELSE 0 END) AS completed FROM work_order"
                        + " WHERE kind = 'LARGE' GROUP BY sales_order_id) AS w ON w.sales_order_id = o.id"
                        + " WHERE (o.status = 'SHIPPED') <> (w.completed = w.n)"
                        + " OR (o.status = 'OPEN') <> (w.scheduled = w.n)"));
        out.put(
                "work-order-stages-are-legal",
                List.of("SELECT COUNT(*) FROM work_order WHERE NOT ("
                        + "(status = 'SCHEDULED' AND stage = 0)"
                        + " OR (status = 'RUNNING' AND stage BETWEEN 1 AND 3)"
                        + " OR (status = 'RUNNING' AND stage = 0 AND kind = 'LARGE')"
                        + " OR (status = 'COMPLETED' AND stage = 3)"
                        + " OR (status = 'CANCELLED' AND stage = 0)"
                        + " OR (status = 'CANCELLED' AND stage BETWEEN 1 AND 3 AND kind = 'PLANNED'))"));
        out.put(
                "advances-are-stages-and-waits",
                List.of("SELECT COUNT(*) FROM work_order w LEFT JOIN (SELECT work_order_id, COUNT(*) AS n,"
                        + " SUM(CASE cause WHEN 'MISSING' THEN 1 ELSE 0 END) AS missing FROM purchase_order"
                        + " GROUP BY work_order_id) AS p ON p.work_order_id = w.id"
                        + " WHERE w.advances < w.stage + COALESCE(p.missing, 0)"
                        + " OR (p.n IS NULL AND w.advances <> w.stage)"));
        out.put(
                "completed-vehicles-fit-their-work-order",
                List.of("SELECT COUNT(*) FROM work_order WHERE NOT ("
                        + "(status <> 'COMPLETED' AND completed_quantity = 0)"
                        + " OR (status = 'COMPLETED' AND kind = 'LARGE' AND completed_quantity = quantity)"
                        + " OR (status = 'COMPLETED' AND kind = 'PLANNED'"
                        + " AND completed_quantity BETWEEN 1 AND quantity))"));
        out.put(
                "finished-stock-is-opening-plus-completed-minus-shipped",
                List.of("SELECT COUNT(*) FROM finished_stock f LEFT JOIN (SELECT model_id,"
                        + " SUM(completed_quantity) AS n FROM work_order WHERE kind = 'PLANNED' GROUP BY model_id) AS w"
                        + " ON w.model_id = f.model_id LEFT JOIN (SELECT l.model_id, SUM(l.quantity) AS n"
                        + " FROM order_line l JOIN sales_order o ON o.id = l.order_id WHERE o.status = 'SHIPPED'"
                        + " AND NOT o.large GROUP BY l.model_id) AS s ON s.model_id = f.model_id"
                        + " WHERE f.quantity <> f.opening + COALESCE(w.n, 0) - COALESCE(s.n, 0)"));
        out.put(
                "reserved-vehicles-wait-for-their-order",
                List.of("SELECT COUNT(*) FROM finished_stock f LEFT JOIN (SELECT w.model_id,"
                        + " SUM(w.completed_quantity) AS n FROM work_order w JOIN sales_order o"
                        + " ON o.id = w.sales_order_id WHERE o.status <> 'SHIPPED' GROUP BY w.model_id) AS w"
                        + " ON w.model_id = f.model_id WHERE f.reserved <> COALESCE(w.n, 0)"));
    }

    private static void parts(Map<String, List<String>> out) {
        out.put(
                "parts-used-are-bills-of-materials",
                List.of(
                        "SELECT COUNT(*) FROM " + BILL_OF_STARTED + " LEFT JOIN part_use u ON u.work_order_id = n.id"
                                + " AND u.part_id = n.part_id AND u.quantity = n.quantity"
                                + " WHERE u.work_order_id IS NULL",
                        "SELECT COUNT(*) FROM part_use u LEFT JOIN " + BILL_OF_STARTED
                                + " ON n.id = u.work_order_id AND n.part_id = u.part_id WHERE n.id IS NULL"));
        out.put(
                "parts-come-back-from-cancelled-work-only",
                List.of("SELECT COUNT(*) FROM part_use u JOIN work_order w ON w.id = u.work_order_id"
                        + " WHERE u.returned <> CASE w.status WHEN 'CANCELLED' THEN u.quantity ELSE 0 END"));
        out.put(
                "part-stock-is-opening-plus-delivered-minus-used",
                List.of("SELECT COUNT(*) FROM part_stock s"
                        + " LEFT JOIN (SELECT part_id, SUM(delivered) AS n FROM purchase_line GROUP BY part_id) AS p"
                        + " ON p.part_id = s.part_id"
                        + " LEFT JOIN (SELECT part_id, SUM(quantity - returned) AS n FROM part_use GROUP BY part_id)"
                        + " AS u ON u.part_id = s.part_id"
                        + " WHERE s.on_hand <> s.opening + COALESCE(p.n, 0) - COALESCE(u.n, 0)"));
        out.put(
                "parts-on-order-are-those-not-delivered",
                List.of("SELECT COUNT(*) FROM part_stock s LEFT JOIN (SELECT l.part_id, SUM(l.quantity) AS n"
                        + " FROM purchase_line l JOIN purchase_order o ON o.id = l.purchase_order_id"
                        + " WHERE o.status = 'SENT' GROUP BY l.part_id) AS p ON p.part_id = s.part_id"
                        + " WHERE s.on_order <> COALESCE(p.n, 0)"));
        out.put(
                "deliveries-have-one-effect",
                List.of(
                        "SELECT COUNT(*) FROM purchase_order o LEFT JOIN delivery d ON d.purchase_order_id = o.id"
                                + " WHERE (o.status = 'DELIVERED') <> (d.purchase_order_id IS NOT NULL)"
                                + " OR (o.status = 'DELIVERED') <> (o.delivered_at IS NOT NULL)"
                                + " OR d.received_at <> o.delivered_at",
                        "SELECT COUNT(*) FROM purchase_line l JOIN purchase_order o ON o.id = l.purchase_order_id"
                                + " WHERE l.delivered <> CASE o.status WHEN 'DELIVERED' THEN l.quantity ELSE 0 END"));
        out.put(
                "missing-parts-are-ordered-by-the-bill",
                List.of("SELECT COUNT(*) FROM purchase_order o JOIN purchase_line l ON l.purchase_order_id = o.id"
                        + " JOIN work_order w ON w.id = o.work_order_id JOIN part_stock s ON s.part_id = l.part_id"
                        + " LEFT JOIN bill_of_materials b ON b.model_id = w.model_id AND b.part_id = l.part_id"
                        + " WHERE o.cause = 'MISSING' AND (b.part_id IS NULL"
                        + " OR l.quantity <> b.quantity * w.quantity + FLOOR(s.opening / 2))"));
        out.put(
                "purchase-orders-are-whole",
                List.of("SELECT COUNT(*) FROM purchase_order o JOIN work_order w ON w.id = o.work_order_id"
                        + " JOIN model m ON m.id = w.model_id LEFT JOIN (SELECT purchase_order_id, COUNT(*) AS n"
                        + " FROM purchase_line GROUP BY purchase_order_id) AS l ON l.purchase_order_id = o.id"
                        + " WHERE l.n IS NULL OR o.supplier_id <> m.supplier_id"
                        + " OR o.status NOT IN ('SENT', 'DELIVERED') OR o.cause NOT IN ('MISSING', 'REQUESTED')"));
    }
}
