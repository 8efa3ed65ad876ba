package leadline.brokerage.data;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Trade;
import leadline.common.Batches;
import leadline.common.Dialect;
import leadline.common.Rows;
import leadline.common.Schema;
import leadline.common.Sink;

/** Puts generated data into a database: tables, rows, indexes, statistics. What was there before is dropped. */
public final class Loader {
    public static final Schema SCHEMA = new Schema(Loader.class, "/leadline/brokerage/sql/schema.sql");

    /** The hour of every generated row: equal seeds give equal rows. */
    private static final LocalDateTime OPENING = LocalDateTime.of(2025, 1, 1, 9, 0);

    private Loader() {}

    public static void load(Connection connection, Scale scale, long seed) throws SQLException {
        Dialect dialect = Dialect.of(connection);
        Generator generator = new Generator(scale, seed);
        connection.setAutoCommit(false);
        SCHEMA.create(connection, dialect);
        try (Batches rows = new Batches(connection, SCHEMA)) {
            rows(generator, scale, seed, generator::passwordHash, rows);
        }
        settle(connection, generator);
        dialect.nextId(connection, "account", scale.accounts() + 1);
        dialect.nextId(connection, "trade_order", scale.orders() + 1);
        dialect.run(connection, Loader.class, "/leadline/brokerage/sql/indexes.sql");
        connection.commit();
        connection.setAutoCommit(true);
        SCHEMA.analyze(connection, dialect);
    }

    /** All rows of a fresh generator, with the given hashes of passwords; instruments as before the first trade. */
    public static void rows(Generator generator, Scale scale, long seed, LongFunction<String> hashes, Sink rows)
            throws SQLException {
        rows.add(
                "generation",
                1,
                Generator.VERSION,
                scale.units(),
                seed,
                scale.accounts(),
                (long) scale.instruments(),
                scale.holdings());
        for (Generator.Instrument i : generator.instruments()) {
            rows.add("instrument", i.symbol(), i.company(), i.openPrice(), i.price(), i.low(), i.high(), 0, 0L, 0L);
        }
        for (long from = 1; from <= scale.accounts(); from += Batches.ROWS) {
            long to = Math.min(scale.accounts(), from + Batches.ROWS - 1);
            List<String> hashed =
                    LongStream.rangeClosed(from, to).parallel().mapToObj(hashes).toList();
            for (long id = from; id <= to; id++) {
                account(id, generator.account(id, hashed.get((int) (id - from))), rows);
            }
        }
    }

    private static void account(long id, Generator.Account a, Sink rows) throws SQLException {
        rows.add(
                "account",
                id,
                a.user(),
                a.passwordHash(),
                a.openingBalance(),
                a.balance(),
                0L,
                JDBCType.TIMESTAMP,
                OPENING);
        Profile profile = a.profile();
        rows.add("account_profile", id, profile.fullName(), profile.address(), profile.email(), profile.card(), 0L);
        long order = (id - 1) * a.lots().size();
        for (Generator.Lot lot : a.lots()) {
            order++;
            Trade trade = lot.trade();
            rows.add(
                    "trade_order",
                    order,
                    id,
                    lot.symbol(),
                    "BUY",
                    lot.quantity(),
                    trade.price(),
                    trade.fee(),
                    lot.quote(),
                    lot.number(),
                    "COMPLETED",
                    OPENING,
                    OPENING,
                    lot.command(),
                    JDBCType.BIGINT);
            rows.add("holding", order, id, lot.symbol(), lot.quantity(), trade.price());
            rows.add("ledger_entry", order, "CASH", id, trade.cash());
            rows.add("ledger_entry", order, "MARKET", id, trade.market());
            rows.add("ledger_entry", order, "FEE", id, trade.fee());
            rows.add("price_point", lot.symbol(), lot.number(), PriceRule.price(lot.symbol(), lot.number()));
        }
    }

    /** Instruments as the generated trades leave them. */
    private static void settle(Connection connection, Generator generator) throws SQLException {
        List<Object[]> rows = new ArrayList<>();
        for (Generator.Instrument i : generator.instruments()) {
            int change = PriceRule.changeBasisPoints(i.price(), i.openPrice());
            rows.add(new Object[] {i.price(), i.low(), i.high(), change, i.volume(), i.trades(), i.symbol()});
        }
        Rows.batch(
                connection,
                "UPDATE instrument SET price = ?, low = ?, high = ?, change_bp = ?, volume = ?,"
                        + " trade_count = ? WHERE symbol = ?",
                rows);
    }
}
