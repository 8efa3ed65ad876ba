package leadline.brokerage.sql;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Clock;
import java.time.LocalDateTime;
import java.time.temporal.ChronoUnit;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;
import leadline.brokerage.domain.Side;
import leadline.brokerage.domain.Trade;
import leadline.common.Passwords;
import leadline.common.Rows;

/**
 * The changing operations on a connection whose transaction somebody else ends. Locks are always taken in the order
 * account, instrument, so that no two of them can wait for each other.
 */
public final class Changes {
    /** The instrument as locked for a trade. */
    private record Market(long openPrice, long low, long high, long volume, long trades) {}

    private record Lot(String symbol, int quantity) {}

    private Changes() {}

    /** Now in UTC, at the precision of the schema. */
    public static LocalDateTime now() {
        return LocalDateTime.now(Clock.systemUTC()).truncatedTo(ChronoUnit.MILLIS);
    }

    public static Login login(Connection c, String user, String password) throws SQLException {
        record Stored(long id, String hash) {}
        Stored stored = Rows.first(c, Sql.LOGIN, row -> new Stored(row.getLong(1), row.getString(2)), user);
        if (stored == null || !Passwords.matches(password, stored.hash())) {
            throw BrokerageException.unauthorized("unknown user or wrong password");
        }
        Rows.update(c, Sql.COUNT_LOGIN, now(), stored.id());
        return new Login(stored.id(), user);
    }

    public static Login register(Connection c, Registration wanted) throws SQLException {
        Checks.registration(wanted);
        try {
            long id = Rows.insert(
                    c,
                    Sql.INSERT_ACCOUNT,
                    wanted.user(),
                    Passwords.hash(wanted.password()),
                    wanted.openingBalance(),
                    wanted.openingBalance(),
                    now());
            Profile profile = wanted.profile();
            Rows.update(
                    c, Sql.INSERT_PROFILE, id, profile.fullName(), profile.address(), profile.email(), profile.card());
            return new Login(id, wanted.user());
        } catch (SQLException e) {
            if (Rows.isDuplicate(e)) {
                throw BrokerageException.conflict("the user name " + wanted.user() + " is taken");
            }
            throw e;
        }
    }

    public static void updateProfile(Connection c, long account, Profile profile) throws SQLException {
        Checks.profile(profile);
        int rows = Rows.update(
                c, Sql.UPDATE_PROFILE, profile.fullName(), profile.address(), profile.email(), profile.card(), account);
        if (rows != 1) {
            throw BrokerageException.notFound("there is no account " + account);
        }
    }

    public static Order buy(Connection c, long account, BuyCommand command) throws SQLException {
        Checks.quantity(command.quantity());
        Checks.symbol(command.symbol());
        long balance = lockAccount(c, account);
        Order before = seenBefore(c, account, command.command());
        if (before != null) {
            return before;
        }
        Market market = lockInstrument(c, command.symbol());
        long quote = Trade.quoteNumber(command.symbol(), command.quote(), market.trades());
        Trade trade = Trade.buy(command.quantity(), PriceRule.price(command.symbol(), quote), balance);
        Order order = fill(c, account, balance, command.symbol(), market, quote, trade, command.command(), null);
        Rows.update(c, Sql.INSERT_HOLDING, order.id(), account, command.symbol(), command.quantity(), trade.price());
        return order;
    }

    public static Order sell(Connection c, long account, SellCommand command) throws SQLException {
        long balance = lockAccount(c, account);
        Order before = seenBefore(c, account, command.command());
        if (before != null) {
            return before;
        }
        long holding = holdingId(c, account, command);
        Lot lot = Rows.first(c, Sql.HOLDING, row -> new Lot(row.getString(1), row.getInt(2)), holding, account);
        if (lot == null) {
            Long closing = Rows.first(c, Sql.ORDER_CLOSING, row -> row.getLong(1), holding, account);
            throw closing == null
                    ? BrokerageException.notFound("there is no holding " + holding + " in this account")
                    : BrokerageException.conflict("holding " + holding + " was sold before, by order " + closing);
        }
        Market market = lockInstrument(c, lot.symbol());
        long quote = Trade.quoteNumber(lot.symbol(), command.quote(), market.trades());
        Trade trade = Trade.sell(lot.quantity(), PriceRule.price(lot.symbol(), quote));
        Rows.update(c, Sql.DELETE_HOLDING, holding);
        return fill(c, account, balance, lot.symbol(), market, quote, trade, command.command(), holding);
    }

    private static long lockAccount(Connection c, long account) throws SQLException {
        Long balance = Rows.first(c, Sql.LOCK_ACCOUNT, row -> row.getLong(1), account);
        if (balance == null) {
            throw BrokerageException.notFound("there is no account " + account);
        }
        return balance;
    }

    private static Order seenBefore(Connection c, long account, String command) throws SQLException {
        return Checks.command(command) == null
                ? null
                : Rows.first(c, Sql.ORDER_BY_COMMAND, Readers::order, account, command);
    }

    private static long holdingId(Connection c, long account, SellCommand command) throws SQLException {
        if (command.holding() != null) {
            return command.holding();
        }
        if (command.boughtBy() == null) {
            throw BrokerageException.bad("holding is missing");
        }
        Order bought = Rows.first(c, Sql.ORDER_BY_COMMAND, Readers::order, account, Checks.command(command.boughtBy()));
        if (bought == null || bought.side() != Side.BUY) {
            throw BrokerageException.notFound("no purchase " + command.boughtBy() + " in this account");
        }
        return bought.id();
    }

    private static Market lockInstrument(Connection c, String symbol) throws SQLException {
        Market market = Rows.first(
                c,
                Sql.LOCK_INSTRUMENT,
                row -> new Market(row.getLong(1), row.getLong(2), row.getLong(3), row.getLong(4), row.getLong(5)),
                symbol);
        if (market == null) {
            throw BrokerageException.notFound("there is no instrument " + symbol);
        }
        return market;
    }

    private static Order fill(
            Connection c,
            long account,
            long balance,
            String symbol,
            Market market,
            long quote,
            Trade trade,
            String command,
            Long closes)
            throws SQLException {
        long number = market.trades() + 1;
        long price = PriceRule.price(symbol, number);
        Rows.update(
                c,
                Sql.UPDATE_INSTRUMENT,
                price,
                Math.min(market.low(), price),
                Math.max(market.high(), price),
                PriceRule.changeBasisPoints(price, market.openPrice()),
                market.volume() + trade.quantity(),
                number,
                symbol);
        Rows.update(c, Sql.INSERT_PRICE_POINT, symbol, number, price);
        LocalDateTime now = now();
        long id = Rows.insert(
                c,
                Sql.INSERT_ORDER,
                account,
                symbol,
                trade.side().name(),
                trade.quantity(),
                trade.price(),
                trade.fee(),
                quote,
                number,
                now,
                now,
                command == null ? JDBCType.VARCHAR : command,
                closes == null ? JDBCType.BIGINT : closes);
        ledger(c, id, account, trade);
        Rows.update(c, Sql.SET_BALANCE, balance + trade.cash(), account);
        return new Order(
                id, trade.side(), symbol, trade.quantity(), trade.price(), trade.fee(), "COMPLETED", now, command);
    }

    private static void ledger(Connection c, long order, long account, Trade trade) throws SQLException {
        try (PreparedStatement statement = c.prepareStatement(Sql.INSERT_LEDGER)) {
            Rows.set(statement, order, "CASH", account, trade.cash());
            statement.addBatch();
            Rows.set(statement, order, "MARKET", account, trade.market());
            statement.addBatch();
            Rows.set(statement, order, "FEE", account, trade.fee());
            statement.addBatch();
            statement.executeBatch();
        }
    }
}
