package leadline.brokerage.web;

import java.util.List;
import java.util.UUID;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.OrderQueue;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.QueueFigures;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;
import leadline.brokerage.domain.Side;
import leadline.brokerage.sql.Changes;

/** Accepts orders and puts them on the queue; everything else is done at once. */
final class QueueingBrokerage implements Brokerage {
    /** Status of an order that is not filled yet. */
    static final String ACCEPTED = "ACCEPTED";

    private final Brokerage inner;
    private final OrderQueue queue;

    QueueingBrokerage(Brokerage inner, OrderQueue queue) {
        this.inner = inner;
        this.queue = queue;
    }

    @Override
    public Order buy(long account, BuyCommand wish) {
        Checks.quantity(wish.quantity());
        Checks.symbol(wish.symbol());
        BuyCommand buy = new BuyCommand(wish.symbol(), wish.quantity(), wish.quote(), named(wish.command()));
        put(new QueuedOrder(account, buy, null, QueueFigures.now()));
        return accepted(Side.BUY, buy.symbol(), buy.quantity(), buy.command());
    }

    @Override
    public Order sell(long account, SellCommand wish) {
        if (wish.holding() == null && Checks.command(wish.boughtBy()) == null) {
            throw BrokerageException.bad("holding is missing");
        }
        SellCommand sell = new SellCommand(wish.holding(), wish.boughtBy(), wish.quote(), named(wish.command()));
        put(new QueuedOrder(account, null, sell, QueueFigures.now()));
        return accepted(Side.SELL, null, 0, sell.command());
    }

    private static String named(String command) {
        return command == null ? UUID.randomUUID().toString() : Checks.command(command);
    }

    private void put(QueuedOrder order) {
        queue.put(order);
        QueueFigures.ALL.accepted();
    }

    private static Order accepted(Side side, String symbol, int quantity, String command) {
        return new Order(0, side, symbol, quantity, 0, 0, ACCEPTED, Changes.now(), command);
    }

    @Override
    public Login login(String user, String password) {
        return inner.login(user, password);
    }

    @Override
    public HomeView home(long account) {
        return inner.home(account);
    }

    @Override
    public MarketSummary marketSummary() {
        return inner.marketSummary();
    }

    @Override
    public List<Holding> portfolio(long account) {
        return inner.portfolio(account);
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        return inner.quotes(symbols);
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return inner.quotesAfter(symbol, limit);
    }

    @Override
    public AccountView account(long account) {
        return inner.account(account);
    }

    @Override
    public Profile profile(long account) {
        return inner.profile(account);
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        inner.updateProfile(account, profile);
    }

    @Override
    public Login register(Registration registration) {
        return inner.register(registration);
    }

    @Override
    public long accounts() {
        return inner.accounts();
    }
}
