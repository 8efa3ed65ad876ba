package leadline.brokerage.session;

import jakarta.annotation.Resource;
import jakarta.ejb.Local;
import jakarta.ejb.Stateless;
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
import leadline.brokerage.domain.OrderDesk;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;
import leadline.brokerage.domain.Settlement;
import leadline.brokerage.sql.Changes;
import leadline.brokerage.sql.Queries;
import leadline.brokerage.sql.Settlements;
import leadline.common.DataFailure;

/** The operations of mode {@code direct}; the container begins, commits and rolls back around each method. */
@Stateless(name = "SessionBrokerage")
@Local({Brokerage.class, OrderDesk.class})
public class SessionBrokerage implements Brokerage, OrderDesk {
    /** Work on a connection. */
    private interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    @Resource(name = "jdbc/brokerage", shareable = false)
    private DataSource source;

    public SessionBrokerage() {}

    /** For another bean, which brings the transaction. */
    public SessionBrokerage(DataSource source) {
        this.source = source;
    }

    private <T> T with(Work<T> work) {
        try (Connection connection = source.getConnection()) {
            return work.on(connection);
        } catch (SQLException e) {
            throw new DataFailure(e);
        }
    }

    @Override
    public Login login(String user, String password) {
        return with(c -> Changes.login(c, user, password));
    }

    @Override
    public HomeView home(long account) {
        return with(c -> Queries.home(c, account));
    }

    @Override
    public MarketSummary marketSummary() {
        return with(Queries::marketSummary);
    }

    @Override
    public List<Holding> portfolio(long account) {
        return with(c -> Queries.portfolio(c, account));
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        return with(c -> Queries.quotes(c, symbols));
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return with(c -> Queries.quotesAfter(c, symbol, limit));
    }

    @Override
    public Order buy(long account, BuyCommand command) {
        return with(c -> Changes.buy(c, account, command));
    }

    @Override
    public Order sell(long account, SellCommand command) {
        return with(c -> Changes.sell(c, account, command));
    }

    @Override
    public Settlement settle(QueuedOrder order) {
        return with(c -> Settlements.settle(c, order));
    }

    @Override
    public Settlement giveUp(QueuedOrder order) {
        return with(c -> Settlements.giveUp(c, order));
    }

    @Override
    public AccountView account(long account) {
        return with(c -> Queries.account(c, account));
    }

    @Override
    public Profile profile(long account) {
        return with(c -> Queries.profile(c, account));
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        with(c -> {
            Changes.updateProfile(c, account, profile);
            return profile;
        });
    }

    @Override
    public Login register(Registration registration) {
        return with(c -> Changes.register(c, registration));
    }

    @Override
    public long accounts() {
        return with(Queries::accounts);
    }
}
