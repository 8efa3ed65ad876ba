package leadline.brokerage.check;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import leadline.brokerage.data.Generator;
import leadline.brokerage.data.Loader;
import leadline.brokerage.data.Scale;
import leadline.common.Audit;
import leadline.common.DriverCount;
import leadline.common.Opening;

/**
 * The audits of a final state. All but the last five hold for any state; those compare what the rows gained with what
 * the driver counted.
 */
public final class Audits {
    /** Each statement counts what is wrong. */
    private static final Map<String, List<String>> WRONG_ROWS = new TreeMap<>(Map.of(
            "ledger-sums-to-zero",
            List.of("SELECT COUNT(*) FROM (SELECT order_id FROM ledger_entry GROUP BY order_id"
                    + " HAVING SUM(amount) <> 0) AS wrong"),
            "balance-is-opening-plus-entries",
            List.of("SELECT COUNT(*) FROM account a LEFT JOIN (SELECT account_id, SUM(amount) AS total"
                    + " FROM ledger_entry WHERE book = 'CASH' GROUP BY account_id) AS e ON e.account_id = a.id"
                    + " WHERE a.balance <> a.opening_balance + COALESCE(e.total, 0)"),
            "holdings-are-buys-minus-sells",
            List.of(
                    "SELECT COUNT(*) FROM trade_order o LEFT JOIN trade_order s ON s.closes_order_id = o.id"
                            + " LEFT JOIN holding h ON h.order_id = o.id AND h.account_id = o.account_id"
                            + " AND h.symbol = o.symbol AND h.quantity = o.quantity AND h.purchase_price = o.price"
                            + " WHERE o.side = 'BUY' AND (s.id IS NULL) <> (h.order_id IS NOT NULL)",
                    "SELECT COUNT(*) FROM trade_order s LEFT JOIN trade_order o ON o.id = s.closes_order_id"
                            + " AND o.side = 'BUY' AND o.account_id = s.account_id AND o.symbol = s.symbol"
                            + " AND o.quantity = s.quantity WHERE s.side = 'SELL' AND o.id IS NULL",
                    "SELECT COUNT(*) FROM holding h LEFT JOIN trade_order o ON o.id = h.order_id AND o.side = 'BUY'"
                            + " LEFT JOIN trade_order s ON s.closes_order_id = o.id"
                            + " WHERE o.id IS NULL OR s.id IS NOT NULL"),
            "orders-are-completed",
            List.of("SELECT COUNT(*) FROM trade_order WHERE status <> 'COMPLETED' OR completed_at IS NULL"
                    + " OR side NOT IN ('BUY', 'SELL') OR (side = 'SELL') <> (closes_order_id IS NOT NULL)"),
            "each-account-has-a-profile",
            List.of("SELECT COUNT(*) FROM account a LEFT JOIN account_profile p ON p.account_id = a.id"
                    + " WHERE p.account_id IS NULL"),
            "log-ins-have-a-time",
            List.of("SELECT COUNT(*) FROM account WHERE (login_count = 0) <> (last_login_at IS NULL)"),
            "nothing-is-negative",
            List.of(
                    "SELECT COUNT(*) FROM account WHERE balance < 0 OR login_count < 0",
                    "SELECT COUNT(*) FROM holding WHERE quantity <= 0",
                    "SELECT COUNT(*) FROM trade_order WHERE quantity <= 0 OR price <= 0 OR fee < 0",
                    "SELECT COUNT(*) FROM instrument WHERE price <= 0 OR volume < 0 OR trade_count < 0"),
            "each-order-has-one-effect",
            List.of("SELECT COUNT(*) FROM trade_order o LEFT JOIN (SELECT order_id, COUNT(*) AS entries,"
                    + " SUM(CASE WHEN book = 'CASH' THEN amount ELSE 0 END) AS cash,"
                    + " SUM(CASE WHEN book = 'MARKET' THEN amount ELSE 0 END) AS market,"
                    + " SUM(CASE WHEN book = 'FEE' THEN amount ELSE 0 END) AS fee,"
                    + " MIN(account_id) AS first_account, MAX(account_id) AS last_account"
                    + " FROM ledger_entry GROUP BY order_id) AS e ON e.order_id = o.id"
                    + " WHERE e.order_id IS NULL OR e.entries <> 3 OR e.fee <> o.fee"
                    + " OR e.first_account <> o.account_id OR e.last_account <> o.account_id"
                    + " OR e.market <> o.quantity * o.price * CASE WHEN o.side = 'BUY' THEN 1 ELSE -1 END"
                    + " OR e.cash <> -o.fee - o.quantity * o.price"
                    + " * CASE WHEN o.side = 'BUY' THEN 1 ELSE -1 END"),
            "queued-orders-have-one-effect",
            List.of(
                    "SELECT COUNT(*) FROM queued_order q LEFT JOIN trade_order o ON o.account_id = q.account_id"
                            + " AND o.command_id = q.command_id AND o.side = q.side"
                            + " WHERE (q.outcome = 'FILLED') <> (o.id IS NOT NULL)",
                    "SELECT COUNT(*) FROM queued_order WHERE outcome NOT IN ('FILLED', 'REJECTED')"
                            + " OR side NOT IN ('BUY', 'SELL')"),
            "trade-count-is-orders",
            List.of(
                    "SELECT COUNT(*) FROM instrument i LEFT JOIN (SELECT symbol, COUNT(*) AS orders,"
                            + " COUNT(DISTINCT trade_number) AS numbers, MAX(trade_number) AS latest,"
                            + " SUM(quantity) AS shares FROM trade_order GROUP BY symbol) AS o ON o.symbol = i.symbol"
                            + " WHERE i.trade_count <> COALESCE(o.orders, 0) OR i.trade_count <> COALESCE(o.numbers, 0)"
                            + " OR i.trade_count <> COALESCE(o.latest, 0) OR i.volume <> COALESCE(o.shares, 0)",
                    "SELECT COUNT(*) FROM instrument i LEFT JOIN (SELECT symbol, COUNT(*) AS points,"
                            + " MAX(trade_number) AS latest, MIN(trade_number) AS first FROM price_point GROUP BY symbol) AS p"
                            + " ON p.symbol = i.symbol WHERE p.first <> 1 OR i.trade_count <> COALESCE(p.points, 0)"
                            + " OR i.trade_count <> COALESCE(p.latest, 0)")));

    private final Connection connection;

    public Audits(Connection connection) {
        this.connection = connection;
    }

    /** All audits; {@code counts} by transaction, one that is missing counts as never made. */
    public List<Audit> run(Scale scale, long seed, Map<String, DriverCount> counts) throws SQLException {
        List<Audit> out = new ArrayList<>();
        out.add(generation(scale, seed));
        out.add(Opening.audit(connection, Loader.SCHEMA, changed(scale), rows -> {
            Generator generator = new Generator(scale, seed);
            Loader.rows(generator, scale, seed, generator::passwordSalt, rows);
        }));
        out.add(Loader.SCHEMA.references(connection));
        for (Map.Entry<String, List<String>> audit : WRONG_ROWS.entrySet()) {
            long wrong = 0;
            for (String sql : audit.getValue()) {
                wrong += number(sql);
            }
            out.add(new Audit(audit.getKey(), wrong == 0, wrong + " rows are wrong"));
        }
        out.add(PriceAudit.run(connection));
        gained(scale).forEach((transaction, rows) -> out.add(delta(transaction, counts, rows)));
        return out;
    }

    /** Rows that the transactions left, by their names. */
    Map<String, Long> gained(Scale scale) throws SQLException {
        Map<String, Long> out = new LinkedHashMap<>();
        out.put("buy", orders("BUY") - scale.orders());
        out.put("sell", orders("SELL"));
        out.put("register", number("SELECT COUNT(*) FROM account") - scale.accounts());
        out.put("login", number("SELECT COALESCE(SUM(login_count), 0) FROM account"));
        out.put("profile", number("SELECT COALESCE(SUM(update_count), 0) FROM account_profile"));
        return out;
    }

    /** What a run changes of the generated rows. */
    private static Map<String, Opening.Rule> changed(Scale scale) {
        String order = "order_id <= " + scale.orders();
        return Map.of(
                "instrument",
                Opening.Rule.changing("price", "low", "high", "change_bp", "volume", "trade_count"),
                "account",
                Opening.Rule.within("id <= " + scale.accounts(), "balance", "login_count", "last_login_at"),
                "account_profile",
                new Opening.Rule(
                        Set.of(),
                        "update_count = 0 AND account_id <= " + scale.accounts(),
                        "SELECT account_id FROM account_profile WHERE update_count > 0"),
                "trade_order",
                Opening.Rule.within("id <= " + scale.orders()),
                "holding",
                new Opening.Rule(
                        Set.of(), order, "SELECT closes_order_id FROM trade_order WHERE closes_order_id IS NOT NULL"),
                "ledger_entry",
                Opening.Rule.within(order),
                "price_point",
                Opening.Rule.within(
                        "(symbol, trade_number) IN (SELECT symbol, trade_number FROM trade_order WHERE id <= "
                                + scale.orders() + ")"));
    }

    /** Filled orders, and those that the queue took and the desk had to reject. */
    private long orders(String side) throws SQLException {
        return number("SELECT COUNT(*) FROM trade_order WHERE side = '" + side + "'")
                + number("SELECT COUNT(*) FROM queued_order WHERE outcome = 'REJECTED' AND side = '" + side + "'");
    }

    private Audit generation(Scale scale, long seed) throws SQLException {
        String expected = describe(
                Generator.VERSION, scale.units(), seed, scale.accounts(), scale.instruments(), scale.holdings());
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT version, units, seed, accounts, instruments,"
                        + " holdings_per_account FROM generation WHERE id = 1")) {
            String found = row.next()
                    ? describe(
                            row.getInt(1), row.getInt(2), row.getLong(3), row.getLong(4), row.getLong(5), row.getInt(6))
                    : "nothing";
            boolean same = found.equals(expected);
            return new Audit(
                    "data-is-the-generated-one", same, same ? found : "loaded: " + found + "; expected: " + expected);
        }
    }

    private static String describe(int version, int units, long seed, long accounts, long instruments, int holdings) {
        return "version " + version + ", units " + units + ", seed " + seed + ", accounts " + accounts
                + ", instruments " + instruments + ", holdings " + holdings;
    }

    /** Passes when the rows gained lie between the answers that were right and all that were asked for. */
    static Audit delta(String transaction, Map<String, DriverCount> counts, long gained) {
        DriverCount count = counts.getOrDefault(transaction, new DriverCount(0, 0));
        return new Audit(
                "rows-are-counts-" + transaction,
                gained >= count.ok() && gained <= count.ok() + count.failed(),
                "rows " + gained + ", driver ok " + count.ok() + ", failed " + count.failed());
    }

    private long number(String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getLong(1);
        }
    }
}
