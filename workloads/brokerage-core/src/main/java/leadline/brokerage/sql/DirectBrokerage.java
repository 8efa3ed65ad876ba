package leadline.brokerage.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import javax.sql.DataSource;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;

/** Mode {@code direct}: a connection from the pool for each operation, committed or rolled back here. */
public final class DirectBrokerage implements Brokerage {
    /** Work on a connection. */
    private interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    private final DataSource source;

    public DirectBrokerage(DataSource source) {
        this.source = source;
    }

    private <T> T transaction(Work<T> work) {
        try (Connection connection = source.getConnection()) {
            connection.setAutoCommit(false);
            try {
                T result = work.on(connection);
                connection.commit();
                return result;
            } catch (SQLException | RuntimeException e) {
                rollback(connection, e);
                throw e;
            } finally {
                restore(connection);
            }
        } catch (SQLException e) {
            throw new DataFailure(e);
        }
    }

    private static void rollback(Connection connection, Exception cause) {
        try {
            connection.rollback();
        } catch (SQLException e) {
            cause.addSuppressed(e);
        }
    }

    private static void restore(Connection connection) throws SQLException {
        if (!connection.isClosed()) {
            connection.setAutoCommit(true);
        }
    }

    @Override
    public Login login(String user, String password) {
        return transaction(c -> Changes.login(c, user, password));
    }

    @Override
    public HomeView home(long account) {
        return transaction(c -> Queries.home(c, account));
    }

    @Override
    public MarketSummary marketSummary() {
        return transaction(Queries::marketSummary);
    }

    @Override
    public List<Holding> portfolio(long account) {
        return transaction(c -> Queries.portfolio(c, account));
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        return transaction(c -> Queries.quotes(c, symbols));
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return transaction(c -> Queries.quotesAfter(c, symbol, limit));
    }

    @Override
    public Order buy(long account, BuyCommand command) {
        return transaction(c -> Changes.buy(c, account, command));
    }

    @Override
    public Order sell(long account, SellCommand command) {
        return transaction(c -> Changes.sell(c, account, command));
    }

    @Override
    public AccountView account(long account) {
        return transaction(c -> Queries.account(c, account));
    }

    @Override
    public Profile profile(long account) {
        return transaction(c -> Queries.profile(c, account));
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        transaction(c -> {
            Changes.updateProfile(c, account, profile);
            return profile;
        });
    }

    @Override
    public Login register(Registration registration) {
        return transaction(c -> Changes.register(c, registration));
    }

    @Override
    public long accounts() {
        return transaction(Queries::accounts);
    }
}
