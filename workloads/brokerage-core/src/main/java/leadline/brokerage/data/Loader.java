package leadline.brokerage.data;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.List;
import java.util.stream.LongStream;
import leadline.brokerage.domain.PriceRule;
import leadline.common.Batch;
import leadline.common.Dialect;

/** Puts generated data into a database: tables, rows, indexes, statistics. What was there before is dropped. */
public final class Loader {
    /** Tables in an order in which they can be dropped. */
    private static final List<String> TABLES = List.of(
            "queued_order",
            "price_point",
            "ledger_entry",
            "holding",
            "trade_order",
            "instrument",
            "account_profile",
            "account",
            "generation");

    /** The hour of every generated row: equal seeds give equal rows. */
    private static final LocalDateTime OPENING = LocalDateTime.of(2025, 1, 1, 9, 0);

    private final Connection connection;
    private final Scale scale;
    private final long seed;
    private final Generator generator;

    public Loader(Connection connection, Scale scale, long seed) {
        this.connection = connection;
        this.scale = scale;
        this.seed = seed;
        this.generator = new Generator(scale, seed);
    }

    public void load() throws SQLException {
        Dialect dialect = Dialect.of(connection);
        connection.setAutoCommit(false);
        dialect.dropTables(connection, TABLES);
        dialect.run(connection, Loader.class, "/leadline/brokerage/sql/schema.sql");
        generation();
        instruments();
        long orders = accounts();
        settle();
        dialect.nextId(connection, "account", scale.accounts() + 1);
        dialect.nextId(connection, "trade_order", orders + 1);
        dialect.run(connection, Loader.class, "/leadline/brokerage/sql/indexes.sql");
        connection.commit();
        connection.setAutoCommit(true);
        dialect.analyze(connection, TABLES);
    }

    private void generation() throws SQLException {
        try (Batch rows = new Batch(connection, "INSERT INTO generation VALUES (?, ?, ?, ?, ?, ?, ?)")) {
            rows.add(
                    1,
                    Generator.VERSION,
                    scale.units(),
                    seed,
                    scale.accounts(),
                    (long) scale.instruments(),
                    scale.holdings());
        }
    }

    private void instruments() throws SQLException {
        try (Batch rows = new Batch(connection, "INSERT INTO instrument VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)")) {
            for (Generator.Instrument i : generator.instruments()) {
                rows.add(i.symbol(), i.company(), i.openPrice(), i.price(), i.low(), i.high());
            }
        }
    }

    private long accounts() throws SQLException {
        long order = 0;
        try (Batch accounts = new Batch(
                        connection,
                        "INSERT INTO account (id, user_name, password_hash, opening_balance, balance,"
                                + " login_count, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)");
                Batch profiles =
                        new Batch(connection, "INSERT INTO account_profile VALUES (?, ?, ?, ?, ?, 0)", accounts);
                Batch orders = new Batch(
                        connection,
                        "INSERT INTO trade_order (id, account_id, symbol, side, quantity, price, fee, quote_number,"
                                + " trade_number, status, opened_at, completed_at, command_id)"
                                + " VALUES (?, ?, ?, 'BUY', ?, ?, ?, ?, ?, 'COMPLETED', ?, ?, ?)",
                        profiles);
                Batch holdings = new Batch(connection, "INSERT INTO holding VALUES (?, ?, ?, ?, ?)", orders);
                Batch ledger = new Batch(connection, "INSERT INTO ledger_entry VALUES (?, ?, ?, ?)", orders);
                Batch prices = new Batch(connection, "INSERT INTO price_point VALUES (?, ?, ?)")) {
            for (long from = 1; from <= scale.accounts(); from += Batch.ROWS) {
                long to = Math.min(scale.accounts(), from + Batch.ROWS - 1);
                List<String> hashes = LongStream.rangeClosed(from, to)
                        .parallel()
                        .mapToObj(generator::passwordHash)
                        .toList();
                for (long id = from; id <= to; id++) {
                    Generator.Account a = generator.account(id, hashes.get((int) (id - from)));
                    accounts.add(id, a.user(), a.passwordHash(), a.openingBalance(), a.balance(), OPENING);
                    profiles.add(
                            id,
                            a.profile().fullName(),
                            a.profile().address(),
                            a.profile().email(),
                            a.profile().card());
                    for (Generator.Lot lot : a.lots()) {
                        order++;
                        long price = lot.trade().price();
                        orders.add(
                                order,
                                id,
                                lot.symbol(),
                                lot.quantity(),
                                price,
                                lot.trade().fee(),
                                lot.quote(),
                                lot.number(),
                                OPENING,
                                OPENING,
                                lot.command());
                        holdings.add(order, id, lot.symbol(), lot.quantity(), price);
                        ledger.add(order, "CASH", id, lot.trade().cash());
                        ledger.add(order, "MARKET", id, lot.trade().market());
                        ledger.add(order, "FEE", id, lot.trade().fee());
                        prices.add(lot.symbol(), lot.number(), PriceRule.price(lot.symbol(), lot.number()));
                    }
                }
            }
        }
        return order;
    }

    /** Instruments as the generated trades leave them. */
    private void settle() throws SQLException {
        try (Batch rows = new Batch(
                connection,
                "UPDATE instrument SET price = ?, low = ?, high = ?, change_bp = ?, volume = ?,"
                        + " trade_count = ? WHERE symbol = ?")) {
            for (Generator.Instrument i : generator.instruments()) {
                int change = PriceRule.changeBasisPoints(i.price(), i.openPrice());
                rows.add(i.price(), i.low(), i.high(), change, i.volume(), i.trades(), i.symbol());
            }
        }
    }
}
