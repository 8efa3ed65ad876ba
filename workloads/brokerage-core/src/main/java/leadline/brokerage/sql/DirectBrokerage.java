package leadline.brokerage.sql;

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
import leadline.common.Transactions;

/** Mode {@code direct}: a connection from the pool for each operation, committed or rolled back here. */
public final class DirectBrokerage implements Brokerage {
    private final Transactions transactions;

    public DirectBrokerage(DataSource source) {
        this.transactions = new Transactions(source);
    }

    @Override
    public Login login(String user, String password) {
        return transactions.run(c -> Changes.login(c, user, password));
    }

    @Override
    public HomeView home(long account) {
        return transactions.run(c -> Queries.home(c, account));
    }

    @Override
    public MarketSummary marketSummary() {
        return transactions.run(Queries::marketSummary);
    }

    @Override
    public List<Holding> portfolio(long account) {
        return transactions.run(c -> Queries.portfolio(c, account));
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        return transactions.run(c -> Queries.quotes(c, symbols));
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return transactions.run(c -> Queries.quotesAfter(c, symbol, limit));
    }

    @Override
    public Order buy(long account, BuyCommand command) {
        return transactions.run(c -> Changes.buy(c, account, command));
    }

    @Override
    public Order sell(long account, SellCommand command) {
        return transactions.run(c -> Changes.sell(c, account, command));
    }

    @Override
    public AccountView account(long account) {
        return transactions.run(c -> Queries.account(c, account));
    }

    @Override
    public Profile profile(long account) {
        return transactions.run(c -> Queries.profile(c, account));
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        transactions.run(c -> {
            Changes.updateProfile(c, account, profile);
            return profile;
        });
    }

    @Override
    public Login register(Registration registration) {
        return transactions.run(c -> Changes.register(c, registration));
    }

    @Override
    public long accounts() {
        return transactions.run(Queries::accounts);
    }
}
