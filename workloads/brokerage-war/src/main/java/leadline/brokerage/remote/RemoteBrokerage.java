package leadline.brokerage.remote;

import java.util.List;
import leadline.brokerage.domain.AccountView;
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

/** The operations of {@link leadline.brokerage.domain.Brokerage} for callers whose values are copied. */
public interface RemoteBrokerage {
    Parcel<Login> login(String user, String password);

    Parcel<HomeView> home(long account);

    Parcel<MarketSummary> marketSummary();

    Parcel<List<Holding>> portfolio(long account);

    Parcel<List<Quote>> quotes(Parcel<List<String>> symbols);

    Parcel<List<Quote>> quotesAfter(String symbol, int limit);

    Parcel<Order> buy(long account, Parcel<BuyCommand> command);

    Parcel<Order> sell(long account, Parcel<SellCommand> command);

    Parcel<AccountView> account(long account);

    Parcel<Profile> profile(long account);

    void updateProfile(long account, Parcel<Profile> profile);

    Parcel<Login> register(Parcel<Registration> registration);

    long accounts();
}
