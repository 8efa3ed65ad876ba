package leadline.brokerage.data;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.List;
import java.util.stream.LongStream;
import leadline.brokerage.domain.PriceRule;

/** Puts generated data into a database: tables, rows, indexes, statistics. What was there before is dropped. */
public final class Loader {
    private static final int BATCH = 1_000;
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
        Schema schema = Schema.of(connection);
        connection.setAutoCommit(false);
        schema.dropTables(connection);
        schema.createTables(connection);
        generation();
        instruments();
        long orders = accounts();
        settle();
        schema.nextId(connection, "account", scale.accounts() + 1);
        schema.nextId(connection, "trade_order", orders + 1);
        schema.createIndexes(connection);
        connection.commit();
        connection.setAutoCommit(true);
        schema.analyze(connection);
    }

    private void generation() throws SQLException {
        try (Batch rows = new Batch("INSERT INTO generation VALUES (?, ?, ?, ?, ?, ?, ?)")) {
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
        try (Batch rows = new Batch("INSERT INTO instrument VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)")) {
            for (Generator.Instrument i : generator.instruments()) {
                rows.add(i.symbol(), i.company(), i.openPrice(), i.price(), i.low(), i.high());
            }
        }
    }

    private long accounts() throws SQLException {
        long order = 0;
        try (Batch accounts = new Batch("INSERT INTO account (id, user_name, password_hash, opening_balance, balance,"
                        + " login_count, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)");
                Batch profiles = new Batch("INSERT INTO account_profile VALUES (?, ?, ?, ?, ?, 0)", accounts);
                Batch orders = new Batch(
                        "INSERT INTO trade_order (id, account_id, symbol, side, quantity, price, fee, quote_number,"
                                + " trade_number, status, opened_at, completed_at, command_id)"
                                + " VALUES (?, ?, ?, 'BUY', ?, ?, ?, ?, ?, 'COMPLETED', ?, ?, ?)",
                        profiles);
                Batch holdings = new Batch("INSERT INTO holding VALUES (?, ?, ?, ?, ?)", orders);
                Batch ledger = new Batch("INSERT INTO ledger_entry VALUES (?, ?, ?, ?)", orders);
                Batch prices = new Batch("INSERT INTO price_point VALUES (?, ?, ?)")) {
            for (long from = 1; from <= scale.accounts(); from += BATCH) {
                long to = Math.min(scale.accounts(), from + BATCH - 1);
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
        try (Batch rows = new Batch("UPDATE instrument SET price = ?, low = ?, high = ?, change_bp = ?, volume = ?,"
                + " trade_count = ? WHERE symbol = ?")) {
            for (Generator.Instrument i : generator.instruments()) {
                int change = PriceRule.changeBasisPoints(i.price(), i.openPrice());
                rows.add(i.price(), i.low(), i.high(), change, i.volume(), i.trades(), i.symbol());
            }
        }
    }

    /** Rows sent a thousand at a time; those it refers to are sent first. */
    private final class Batch implements AutoCloseable {
        private final PreparedStatement statement;
        private final Batch parent;
        private int waiting;

        Batch(String sql) throws SQLException {
            this(sql, null);
        }

        Batch(String sql, Batch parent) throws SQLException {
            this.statement = connection.prepareStatement(sql);
            this.parent = parent;
        }

        void add(Object... values) throws SQLException {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            statement.addBatch();
            if (++waiting == BATCH) {
                send();
            }
        }

        private void send() throws SQLException {
            if (parent != null) {
                parent.send();
            }
            if (waiting > 0) {
                statement.executeBatch();
                waiting = 0;
            }
        }

        @Override
        public void close() throws SQLException {
            try (statement) {
                send();
            }
        }
    }
}
