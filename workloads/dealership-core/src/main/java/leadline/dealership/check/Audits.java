package leadline.dealership.check;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import leadline.common.Audit;
import leadline.common.DriverCount;
import leadline.common.Opening;
import leadline.common.Rows;
import leadline.dealership.data.Generator;
import leadline.dealership.data.Loader;
import leadline.dealership.data.Scale;

/**
 * The audits of a final state: those that hold for any state, then the rows against what the driver and the supplier
 * counted, then what the driver was to ask for.
 */
public final class Audits {
    /** Relative; beside it four standard errors of what was counted. */
    private static final double TOLERANCE = 0.05;

    private static final double ERRORS = 4;

    /** Transactions of dealers that are logged in. */
    private static final String[] DEALERS = {"browse", "purchase", "purchase_large", "manage_sell", "manage_cancel"};

    /** Rows that a transaction leaves, by its name. */
    private static final Map<String, String> ROWS = rows();

    /** What a run changes of the generated rows. */
    private static final Map<String, Opening.Rule> CHANGED = Map.of(
            "dealer", Opening.Rule.changing("balance", "login_count", "last_login_at"),
            "dealer_stock", Opening.Rule.within("opening <> 0", "quantity"),
            "finished_stock", Opening.Rule.changing("quantity", "reserved"),
            "part_stock", Opening.Rule.changing("on_hand", "on_order"));

    private Audits() {}

    private static Map<String, String> rows() {
        Map<String, String> out = new LinkedHashMap<>();
        out.put("login", "SELECT COALESCE(SUM(login_count), 0) FROM dealer");
        out.put("purchase", "SELECT COUNT(*) FROM sales_order WHERE kind = 'ORDER' AND NOT large");
        out.put("purchase_large", "SELECT COUNT(*) FROM sales_order WHERE kind = 'ORDER' AND large");
        out.put("manage_sell", "SELECT COUNT(*) FROM sales_order WHERE kind = 'SALE'");
        out.put(
                "manage_cancel",
                "SELECT COUNT(DISTINCT order_id) FROM ledger_entry WHERE reason = 'REFUND' AND book = 'CASH'");
        out.put("schedule", "SELECT COUNT(*) FROM work_order WHERE kind = 'PLANNED'");
        out.put("advance", "SELECT COALESCE(SUM(advances), 0) FROM work_order");
        out.put("complete", "SELECT COUNT(*) FROM work_order WHERE status = 'COMPLETED'");
        out.put("cancel_work", "SELECT COUNT(*) FROM work_order WHERE kind = 'PLANNED' AND status = 'CANCELLED'");
        out.put(
                "claim_large",
                "SELECT COUNT(*) FROM work_order WHERE kind = 'LARGE' AND status IN ('RUNNING', 'COMPLETED')");
        out.put("request_parts", "SELECT COUNT(*) FROM purchase_order WHERE cause = 'REQUESTED'");
        return out;
    }

    /** Transactions that leave rows to be counted. */
    static Set<String> written() {
        return ROWS.keySet();
    }

    /** With the counts of a driver that asked for exactly what the rows show. */
    static Inputs exact(Connection connection, Inputs inputs) throws SQLException {
        Map<String, DriverCount> counts = new LinkedHashMap<>(inputs.counts());
        for (Map.Entry<String, String> transaction : ROWS.entrySet()) {
            counts.put(transaction.getKey(), new DriverCount(number(connection, transaction.getValue()), 0));
        }
        return new Inputs(inputs.scale(), inputs.seed(), counts, inputs.supplier(), inputs.load());
    }

    public static List<Audit> run(Connection connection, Inputs inputs) throws SQLException {
        List<Audit> out = new ArrayList<>();
        out.add(generation(connection, inputs.scale(), inputs.seed()));
        out.add(opening(connection, inputs.scale(), inputs.seed()));
        out.add(Loader.SCHEMA.references(connection));
        for (Map.Entry<String, List<String>> audit : Statements.WRONG_ROWS.entrySet()) {
            long wrong = 0;
            for (String sql : audit.getValue()) {
                wrong += number(connection, sql);
            }
            out.add(new Audit(audit.getKey(), wrong == 0, wrong + " rows are wrong"));
        }
        if (inputs.supplier() != null) {
            supplier(connection, inputs.supplier(), out);
        }
        for (Map.Entry<String, String> transaction : ROWS.entrySet()) {
            out.add(delta(
                    transaction.getKey(),
                    inputs.count(transaction.getKey()),
                    number(connection, transaction.getValue())));
        }
        out.add(mix(inputs));
        out.add(share(
                "large-orders-are-a-tenth",
                0.1,
                inputs.asked("purchase_large"),
                inputs.asked("purchase_large", "purchase")));
        out.add(vehicles(connection, "vehicles-of-small-orders-are-14", 14, "NOT o.large"));
        out.add(vehicles(connection, "vehicles-of-large-orders-are-140", 140, "o.large"));
        if (inputs.load() != null) {
            out.add(dealers(inputs.load()));
            out.add(plant(inputs.load()));
        }
        return out;
    }

    private static Audit opening(Connection connection, Scale scale, long seed) throws SQLException {
        return Opening.audit(
                connection,
                Loader.SCHEMA,
                CHANGED,
                rows -> Loader.rows(scale, seed, new Generator(scale, seed)::passwordSalt, rows));
    }

    private static Audit generation(Connection connection, Scale scale, long seed) throws SQLException {
        String expected =
                describe(Generator.VERSION, scale.units(), seed, scale.dealers(), scale.models(), scale.parts());
        String loaded = Rows.first(
                connection,
                "SELECT version, units, seed, dealers, models, parts FROM generation WHERE id = 1",
                row -> describe(
                        row.getInt(1), row.getInt(2), row.getLong(3), row.getLong(4), row.getLong(5), row.getLong(6)));
        boolean same = expected.equals(loaded);
        return new Audit(
                "data-is-the-generated-one", same, same ? loaded : "loaded: " + loaded + "; expected: " + expected);
    }

    private static String describe(int version, int units, long seed, long dealers, long models, long parts) {
        return "version " + version + ", units " + units + ", seed " + seed + ", dealers " + dealers + ", models "
                + models + ", parts " + parts;
    }

    private static void supplier(Connection connection, SupplierCount supplier, List<Audit> out) throws SQLException {
        long sent = number(connection, "SELECT COUNT(*) FROM purchase_order");
        long delivered = number(connection, "SELECT COUNT(*) FROM purchase_order WHERE status = 'DELIVERED'");
        out.add(new Audit(
                "supplier-has-the-purchase-orders",
                sent == supplier.received(),
                "sent " + sent + ", supplier received " + supplier.received()));
        out.add(new Audit(
                "deliveries-are-the-suppliers",
                delivered == supplier.delivered() && sent - delivered == supplier.pending() + supplier.failed(),
                "taken in " + delivered + " of " + sent + ", supplier delivered " + supplier.delivered() + ", pending "
                        + supplier.pending() + ", failed " + supplier.failed()));
    }

    /** Passes when the rows gained lie between the responses that were right and all that were asked for. */
    static Audit delta(String transaction, DriverCount count, long gained) {
        return new Audit(
                "rows-are-counts-" + transaction,
                gained >= count.ok() && gained <= count.ok() + count.failed(),
                "rows " + gained + ", driver ok " + count.ok() + ", failed " + count.failed());
    }

    private static long dealerTransactions(Inputs inputs) {
        return inputs.asked(DEALERS);
    }

    static Audit mix(Inputs inputs) {
        long all = dealerTransactions(inputs);
        List<Audit> shares = List.of(
                share("browse", 0.5, inputs.asked("browse"), all),
                share("purchase", 0.25, inputs.asked("purchase", "purchase_large"), all),
                share("manage", 0.25, inputs.asked("manage_sell", "manage_cancel"), all));
        StringBuilder detail = new StringBuilder();
        shares.forEach(audit -> detail.append(detail.isEmpty() ? "" : "; ")
                .append(audit.name())
                .append(": ")
                .append(audit.detail()));
        return new Audit("mix-is-the-one-asked-for", shares.stream().allMatch(Audit::passed), detail.toString());
    }

    /** Whether {@code part} of {@code all} is the expected share, within the tolerance and chance. */
    static Audit share(String name, double expected, long part, long all) {
        double share = all == 0 ? expected : (double) part / all;
        double allowed = TOLERANCE * expected + ERRORS * Math.sqrt(expected * (1 - expected) / Math.max(all, 1));
        return new Audit(
                name,
                Math.abs(share - expected) <= allowed,
                text("%d of %d are %.4f, expected %.4f +- %.4f", part, all, share, expected, allowed));
    }

    /** Ten dealers a unit. Of 110 transactions 5 log out and 5 log in again; before the first log-out it is 5 of 105. */
    static Audit dealers(Load load) {
        double agents = 10 * load.injectionRate();
        double each = load.seconds() / mean(load.dealerCycle());
        long asked = 0;
        for (String transaction : DEALERS) {
            asked += load.asked().getOrDefault(transaction, 0L);
        }
        return rate(
                "dealer-transactions-have-their-rate",
                asked,
                agents * each * 100 / 110 * free(agents, load),
                agents * each * 100 / 105,
                load);
    }

    /**
     * Three agents a unit. Every work order takes one of them 6.09 transactions, and 0.8 of them are planned. An agent
     * begins with one.
     */
    static Audit plant(Load load) {
        double agents = 3 * load.injectionRate();
        double each = load.seconds() / mean(load.plantCycle()) / 6.09;
        return rate(
                "planned-work-orders-have-their-rate",
                load.asked().getOrDefault("schedule", 0L),
                agents * 0.8 * each * free(agents, load),
                agents * 0.8 * (each + 1),
                load);
    }

    /** Of cycles that are cut at five times {@code cycle}. */
    private static double mean(double cycle) {
        return cycle * (1 - Math.exp(-5));
    }

    /** Share of {@code agents} that can ask for something, were all that wait for an answer among them. */
    private static double free(double agents, Load load) {
        return Math.max(0, 1 - load.waiting() / agents);
    }

    /** Whether between {@code least} and {@code most} were asked for, within the tolerance and chance. */
    private static Audit rate(String name, long asked, double least, double most, Load load) {
        double low = Math.max(0, (1 - TOLERANCE) * least - ERRORS * Math.sqrt(least));
        double high = (1 + TOLERANCE) * most + ERRORS * Math.sqrt(most);
        return new Audit(
                name,
                asked >= low && asked <= high,
                text(
                        "%d in %.1f s at injection rate %s, expected %.0f to %.0f; %.1f agents waited for answers",
                        asked, load.seconds(), load.injectionRate(), low, high, load.waiting()));
    }

    private static Audit vehicles(Connection connection, String name, double expected, String which)
            throws SQLException {
        record Sums(long n, double mean, double error) {}
        Sums sums = Rows.first(
                connection,
                "SELECT COUNT(*), COALESCE(AVG(v.n), 0), COALESCE(STDDEV_POP(v.n), 0) FROM (SELECT l.order_id,"
                        + " SUM(l.quantity) AS n FROM order_line l JOIN sales_order o ON o.id = l.order_id"
                        + " WHERE o.kind = 'ORDER' AND " + which + " GROUP BY l.order_id) AS v",
                row -> new Sums(
                        row.getLong(1),
                        row.getDouble(2),
                        // A few orders tell little of their spread.
                        Math.max(row.getDouble(3), expected / 2) / Math.sqrt(Math.max(row.getLong(1), 1))));
        double allowed = TOLERANCE * expected + ERRORS * sums.error();
        return new Audit(
                name,
                sums.n() == 0 || Math.abs(sums.mean() - expected) <= allowed,
                text("%.2f in %d orders, expected %.0f +- %.2f", sums.mean(), sums.n(), expected, allowed));
    }

    private static String text(String format, Object... values) {
        return String.format(Locale.ROOT, format, values);
    }

    private static long number(Connection connection, String sql) throws SQLException {
        return Rows.first(connection, sql, row -> row.getLong(1));
    }
}
