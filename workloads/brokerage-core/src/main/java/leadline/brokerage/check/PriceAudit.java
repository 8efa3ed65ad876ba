package leadline.brokerage.check;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.stream.LongStream;
import leadline.brokerage.domain.PriceRule;
import leadline.common.Audit;

/** Compares every stored price with the rule of prices. */
final class PriceAudit {
    private static final int FETCH = 10_000;

    private PriceAudit() {}

    static Audit run(Connection connection) throws SQLException {
        long wrong = count(
                connection,
                "SELECT symbol, open_price, price, change_bp, low, high, trade_count FROM instrument",
                row -> {
                    String symbol = row.getString(1);
                    long open = PriceRule.price(symbol, 0);
                    long price = PriceRule.price(symbol, row.getLong(7));
                    return row.getLong(2) == open
                            && row.getLong(3) == price
                            && row.getInt(4) == PriceRule.changeBasisPoints(price, open)
                            && row.getLong(5)
                                    == prices(symbol, row.getLong(7)).min().getAsLong()
                            && row.getLong(6)
                                    == prices(symbol, row.getLong(7)).max().getAsLong();
                });
        wrong += count(
                connection,
                "SELECT symbol, trade_number, price FROM price_point",
                row -> row.getLong(3) == PriceRule.price(row.getString(1), row.getLong(2)));
        wrong += count(
                connection,
                "SELECT symbol, quote_number, price, trade_number FROM trade_order",
                row -> row.getLong(3) == PriceRule.price(row.getString(1), row.getLong(2))
                        && row.getLong(2) < row.getLong(4));
        return new Audit("prices-follow-the-rule", wrong == 0, wrong + " rows are wrong");
    }

    /** Those from the opening to a number of trades; they repeat after {@link PriceRule#PERIOD}. */
    private static LongStream prices(String symbol, long trades) {
        return LongStream.rangeClosed(0, Math.min(trades, PriceRule.PERIOD))
                .map(number -> PriceRule.price(symbol, number));
    }

    /** Whether a row is right. */
    private interface Test {
        boolean right(ResultSet row) throws SQLException;
    }

    private static long count(Connection connection, String sql, Test test) throws SQLException {
        long wrong = 0;
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(FETCH);
            try (ResultSet rows = statement.executeQuery(sql)) {
                while (rows.next()) {
                    wrong += test.right(rows) ? 0 : 1;
                }
            }
        }
        return wrong;
    }
}
