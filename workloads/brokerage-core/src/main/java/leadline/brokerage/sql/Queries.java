package leadline.brokerage.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.common.Rows;

/** The reading operations on a connection whose transaction somebody else ends. */
public final class Queries {
    private static final int[] LIST_SIZES = {1, 2, 5, 10, Checks.MOST_SYMBOLS};

    private Queries() {}

    public static long accounts(Connection c) throws SQLException {
        return Rows.first(c, Sql.COUNT_ACCOUNTS, row -> row.getLong(1));
    }

    public static HomeView home(Connection c, long account) throws SQLException {
        long[] holdings =
                Rows.first(c, Sql.HOLDINGS_VALUE, row -> new long[] {row.getLong(1), row.getLong(2)}, account);
        return found(
                Rows.first(
                        c,
                        Sql.ACCOUNT,
                        row -> new HomeView(
                                row.getString(1),
                                row.getLong(2),
                                row.getLong(3),
                                row.getLong(4),
                                holdings[0],
                                holdings[1]),
                        account),
                account);
    }

    public static MarketSummary marketSummary(Connection c) throws SQLException {
        return new MarketSummary(
                Rows.list(c, Sql.GAINERS, Readers::quote, MarketSummary.SIZE),
                Rows.list(c, Sql.LOSERS, Readers::quote, MarketSummary.SIZE),
                Rows.list(c, Sql.ACTIVE, Readers::quote, MarketSummary.SIZE));
    }

    public static List<Holding> portfolio(Connection c, long account) throws SQLException {
        return Rows.list(c, Sql.PORTFOLIO, Readers::holding, account);
    }

    public static List<Quote> quotes(Connection c, List<String> symbols) throws SQLException {
        List<String> padded = padded(Checks.symbols(symbols));
        List<Quote> quotes = Rows.list(c, Sql.quotesIn(padded.size()), Readers::quote, padded.toArray());
        return allFound(quotes, symbols);
    }

    /** Lists of a few lengths only, the last symbol repeated, so that few different statements need a cache entry. */
    public static List<String> padded(List<String> symbols) {
        for (int size : LIST_SIZES) {
            if (symbols.size() <= size) {
                List<String> out = new ArrayList<>(symbols);
                while (out.size() < size) {
                    out.add(symbols.get(symbols.size() - 1));
                }
                return out;
            }
        }
        throw new IllegalArgumentException("more than " + Checks.MOST_SYMBOLS + " symbols");
    }

    /** Throws NOT_FOUND for a symbol that has no quote. */
    public static List<Quote> allFound(List<Quote> quotes, List<String> symbols) {
        for (String symbol : symbols) {
            if (quotes.stream().noneMatch(quote -> quote.symbol().equals(symbol))) {
                throw BrokerageException.notFound("there is no instrument " + symbol);
            }
        }
        return quotes;
    }

    public static List<Quote> quotesAfter(Connection c, String symbol, int limit) throws SQLException {
        return Rows.list(c, Sql.QUOTES_AFTER, Readers::quote, symbol, limit);
    }

    public static AccountView account(Connection c, long account) throws SQLException {
        var orders = Rows.list(c, Sql.LATEST_ORDERS, Readers::order, account, Brokerage.LATEST_ORDERS);
        return found(
                Rows.first(
                        c,
                        Sql.ACCOUNT,
                        row -> new AccountView(
                                account,
                                row.getString(1),
                                row.getLong(2),
                                row.getLong(3),
                                row.getLong(4),
                                row.getObject(5, LocalDateTime.class),
                                orders),
                        account),
                account);
    }

    public static Profile profile(Connection c, long account) throws SQLException {
        return found(
                Rows.first(
                        c,
                        Sql.PROFILE,
                        row -> new Profile(row.getString(1), row.getString(2), row.getString(3), row.getString(4)),
                        account),
                account);
    }

    private static <T> T found(T value, long account) {
        if (value == null) {
            throw BrokerageException.notFound("there is no account " + account);
        }
        return value;
    }
}
