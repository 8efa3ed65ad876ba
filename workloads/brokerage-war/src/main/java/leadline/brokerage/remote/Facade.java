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

/** The remote interface over an implementation in the same bean. */
abstract class Facade implements RemoteBrokerage {
    abstract Brokerage work();

    @Override
    public Parcel<Login> login(String user, String password) {
        return Parcel.of(work().login(user, password));
    }

    @Override
    public Parcel<HomeView> home(long account) {
        return Parcel.of(work().home(account));
    }

    @Override
    public Parcel<MarketSummary> marketSummary() {
        return Parcel.of(work().marketSummary());
    }

    @Override
    public Parcel<List<Holding>> portfolio(long account) {
        return Parcel.of(work().portfolio(account));
    }

    @Override
    public Parcel<List<Quote>> quotes(Parcel<List<String>> symbols) {
        return Parcel.of(work().quotes(symbols.open()));
    }

    @Override
    public Parcel<List<Quote>> quotesAfter(String symbol, int limit) {
        return Parcel.of(work().quotesAfter(symbol, limit));
    }

    @Override
    public Parcel<Order> buy(long account, Parcel<BuyCommand> command) {
        return Parcel.of(work().buy(account, command.open()));
    }

    @Override
    public Parcel<Order> sell(long account, Parcel<SellCommand> command) {
        return Parcel.of(work().sell(account, command.open()));
    }

    @Override
    public Parcel<AccountView> account(long account) {
        return Parcel.of(work().account(account));
    }

    @Override
    public Parcel<Profile> profile(long account) {
        return Parcel.of(work().profile(account));
    }

    @Override
    public void updateProfile(long account, Parcel<Profile> profile) {
        work().updateProfile(account, profile.open());
    }

    @Override
    public Parcel<Login> register(Parcel<Registration> registration) {
        return Parcel.of(work().register(registration.open()));
    }

    @Override
    public long accounts() {
        return work().accounts();
    }
}
