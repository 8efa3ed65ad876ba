package leadline.brokerage.check;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import leadline.brokerage.data.Loader;
import leadline.brokerage.data.Scale;
import leadline.common.DriverCount;
import leadline.common.Mutants;

/** Changes the data of a run a row at a time, and sees which audits notice. */
public final class Faults {
    private static final Set<Mutants.Change> ANY = EnumSet.allOf(Mutants.Change.class);
    private static final Set<Mutants.Change> SWAP = EnumSet.of(Mutants.Change.SWAP);
    private static final String TIME = "a time of the host's clock; nothing else keeps it";

    private Faults() {}

    /** The results of all mutants; {@code chosen} is the seed that chooses their rows. */
    public static List<Mutants.Result> mutants(Connection connection, Scale scale, long seed, long chosen)
            throws SQLException {
        Audits audits = new Audits(connection);
        Map<String, DriverCount> exact = new LinkedHashMap<>();
        audits.gained(scale).forEach((transaction, rows) -> exact.put(transaction, new DriverCount(rows, 0)));
        return Mutants.run(connection, Loader.SCHEMA, equivalent(scale), chosen, () -> audits.run(scale, seed, exact));
    }

    /** Changes that leave the data of a right run. */
    private static List<Mutants.Equivalent> equivalent(Scale scale) {
        String registered = "id > " + scale.accounts();
        String ordered = "id > " + scale.orders();
        return List.of(
                new Mutants.Equivalent("account", List.of("last_login_at"), ANY, "1 = 1", TIME),
                new Mutants.Equivalent("account", List.of("created_at"), ANY, registered, TIME),
                new Mutants.Equivalent("trade_order", List.of("opened_at", "completed_at"), ANY, ordered, TIME),
                new Mutants.Equivalent(
                        "account",
                        List.of("user_name", "password_hash"),
                        ANY,
                        registered,
                        "what a customer wrote is kept nowhere else"),
                new Mutants.Equivalent(
                        "account_profile",
                        List.of("full_name", "address", "email", "card"),
                        ANY,
                        "update_count > 0 OR account_" + registered,
                        "what a customer wrote is kept nowhere else"),
                new Mutants.Equivalent(
                        "account",
                        List.of("password_hash"),
                        EnumSet.of(Mutants.Change.SHIFT),
                        "1 = 1",
                        "iterations and salt are compared; a hash is slow to make again, a wrong one fails the log-in"),
                new Mutants.Equivalent(
                        "account",
                        List.of("login_count"),
                        SWAP,
                        "1 = 1",
                        "the driver counts all log-ins, not those of an account"),
                new Mutants.Equivalent(
                        "account_profile",
                        List.of("update_count"),
                        SWAP,
                        "update_count > 0 OR account_" + registered,
                        "the driver counts all changes, not those of an account"),
                new Mutants.Equivalent(
                        "queued_order",
                        List.of("account_id"),
                        EnumSet.of(Mutants.Change.DELETE),
                        "outcome = 'FILLED'",
                        "the order itself is there, and its name keeps a repeated message from a second effect"),
                new Mutants.Equivalent(
                        "queued_order",
                        List.of("account_id", "command_id", "side"),
                        EnumSet.of(Mutants.Change.SHIFT, Mutants.Change.SWAP),
                        "outcome = 'REJECTED'",
                        "an order that was never filled is kept nowhere else"),
                new Mutants.Equivalent(
                        "trade_order", List.of("command_id"), ANY, ordered, "a name that the driver chose; kept once"),
                new Mutants.Equivalent(
                        "trade_order",
                        List.of("quote_number"),
                        ANY,
                        ordered + " AND (EXISTS (SELECT 1 FROM price_point p WHERE p.symbol = trade_order.symbol"
                                + " AND p.price = trade_order.price AND p.trade_number <> quote_number)"
                                + " OR EXISTS (SELECT 1 FROM instrument i WHERE i.symbol = trade_order.symbol"
                                + " AND i.open_price = trade_order.price AND quote_number <> 0))",
                        "the instrument had the price of the order twice"));
    }
}
