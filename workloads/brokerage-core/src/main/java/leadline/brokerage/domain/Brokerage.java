package leadline.brokerage.domain;

import java.util.List;

/**
 * The operations of the application. Every mode implements them with the same SQL meaning; each is one transaction.
 * All throw {@link BrokerageException} for what a caller did wrong and an unchecked exception for what broke.
 */
public interface Brokerage {
    int LATEST_ORDERS = 10;

    /** Counts the login. UNAUTHORIZED for an unknown user or a wrong password, without saying which. */
    Login login(String user, String password);

    HomeView home(long account);

    MarketSummary marketSummary();

    /** Lots of the account, oldest first. */
    List<Holding> portfolio(long account);

    /** The named instruments by symbol; NOT_FOUND when one does not exist. */
    List<Quote> quotes(List<String> symbols);

    /** The next instruments by symbol. */
    List<Quote> quotesAfter(String symbol, int limit);

    /** CONFLICT without the funds. A command seen before gives its first order again. */
    Order buy(long account, BuyCommand command);

    /** CONFLICT when the holding was sold before, NOT_FOUND when it never was this account's. */
    Order sell(long account, SellCommand command);

    AccountView account(long account);

    Profile profile(long account);

    void updateProfile(long account, Profile profile);

    /** CONFLICT when the user name is taken. */
    Login register(Registration registration);

    /** Number of accounts; answers only when the database does. */
    long accounts();
}
