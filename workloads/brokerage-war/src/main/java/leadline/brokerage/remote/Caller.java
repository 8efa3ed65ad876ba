package leadline.brokerage.remote;

import java.util.List;
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
import leadline.common.Parcel;

/** The operations for a servlet that calls the remote interface. */
public final class Caller implements Brokerage {
    private final RemoteBrokerage bean;

    public Caller(RemoteBrokerage bean) {
        this.bean = bean;
    }

    @Override
    public Login login(String user, String password) {
        return bean.login(user, password).open();
    }

    @Override
    public HomeView home(long account) {
        return bean.home(account).open();
    }

    @Override
    public MarketSummary marketSummary() {
        return bean.marketSummary().open();
    }

    @Override
    public List<Holding> portfolio(long account) {
        return bean.portfolio(account).open();
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        return bean.quotes(Parcel.of(symbols)).open();
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return bean.quotesAfter(symbol, limit).open();
    }

    @Override
    public Order buy(long account, BuyCommand command) {
        return bean.buy(account, Parcel.of(command)).open();
    }

    @Override
    public Order sell(long account, SellCommand command) {
        return bean.sell(account, Parcel.of(command)).open();
    }

    @Override
    public AccountView account(long account) {
        return bean.account(account).open();
    }

    @Override
    public Profile profile(long account) {
        return bean.profile(account).open();
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        bean.updateProfile(account, Parcel.of(profile));
    }

    @Override
    public Login register(Registration registration) {
        return bean.register(Parcel.of(registration)).open();
    }

    @Override
    public long accounts() {
        return bean.accounts();
    }
}
