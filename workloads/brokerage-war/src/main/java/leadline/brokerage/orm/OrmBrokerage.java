package leadline.brokerage.orm;

import jakarta.ejb.Local;
import jakarta.ejb.Stateless;
import jakarta.persistence.EntityManager;
import jakarta.persistence.LockModeType;
import jakarta.persistence.PersistenceContext;
import jakarta.persistence.PersistenceException;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.List;
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
import leadline.brokerage.domain.OrderDesk;
import leadline.brokerage.domain.Outcome;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;
import leadline.brokerage.domain.Settlement;
import leadline.brokerage.domain.Side;
import leadline.brokerage.domain.Trade;
import leadline.brokerage.sql.Changes;
import leadline.brokerage.sql.Queries;
import leadline.common.Passwords;
import leadline.common.Rows;

/** The operations on entities: the same rows are read, locked in the same order and written as in the other modes. */
@Stateless(name = "OrmBrokerage")
@Local({Brokerage.class, OrderDesk.class})
public class OrmBrokerage implements Brokerage, OrderDesk {
    @PersistenceContext(unitName = "brokerage")
    private EntityManager entities;

    public OrmBrokerage() {}

    /** For another bean, which brings the transaction. */
    public OrmBrokerage(EntityManager entities) {
        this.entities = entities;
    }

    @Override
    public Login login(String user, String password) {
        AccountEntity account = entities.createQuery(
                        "select a from AccountEntity a where a.userName = :user", AccountEntity.class)
                .setParameter("user", user)
                .getResultStream()
                .findFirst()
                .orElse(null);
        if (account == null || !Passwords.matches(password, account.passwordHash())) {
            throw BrokerageException.unauthorized("unknown user or wrong password");
        }
        entities.createQuery("update AccountEntity a set a.loginCount = a.loginCount + 1, a.lastLoginAt = :now"
                        + " where a.id = :id")
                .setParameter("now", Changes.now())
                .setParameter("id", account.id())
                .executeUpdate();
        return new Login(account.id(), user);
    }

    @Override
    public HomeView home(long account) {
        Object[] sums = entities.createQuery(
                        "select count(h), sum(h.quantity * i.price) from HoldingEntity h, InstrumentEntity i"
                                + " where i.symbol = h.symbol and h.accountId = :account",
                        Object[].class)
                .setParameter("account", account)
                .getSingleResult();
        long value = sums[1] == null ? 0 : ((Number) sums[1]).longValue();
        return found(account, LockModeType.NONE).home(((Number) sums[0]).longValue(), value);
    }

    @Override
    public MarketSummary marketSummary() {
        return new MarketSummary(
                market("i.changeBp desc, i.symbol desc"),
                market("i.changeBp, i.symbol"),
                market("i.volume desc, i.symbol desc"));
    }

    private List<Quote> market(String order) {
        return entities.createQuery("select i from InstrumentEntity i order by " + order, InstrumentEntity.class)
                .setMaxResults(MarketSummary.SIZE)
                .getResultStream()
                .map(InstrumentEntity::quote)
                .toList();
    }

    @Override
    public List<Holding> portfolio(long account) {
        return entities.createQuery(
                        "select h, i from HoldingEntity h, InstrumentEntity i"
                                + " where i.symbol = h.symbol and h.accountId = :account order by h.orderId",
                        Object[].class)
                .setParameter("account", account)
                .getResultStream()
                .map(row -> ((HoldingEntity) row[0]).holding((InstrumentEntity) row[1]))
                .toList();
    }

    @Override
    public List<Quote> quotes(List<String> symbols) {
        List<Quote> quotes = entities.createQuery(
                        "select i from InstrumentEntity i where i.symbol in :symbols order by i.symbol",
                        InstrumentEntity.class)
                .setParameter("symbols", Queries.padded(Checks.symbols(symbols)))
                .getResultStream()
                .map(InstrumentEntity::quote)
                .toList();
        return Queries.allFound(quotes, symbols);
    }

    @Override
    public List<Quote> quotesAfter(String symbol, int limit) {
        return entities.createQuery(
                        "select i from InstrumentEntity i where i.symbol > :symbol order by i.symbol",
                        InstrumentEntity.class)
                .setParameter("symbol", symbol)
                .setMaxResults(limit)
                .getResultStream()
                .map(InstrumentEntity::quote)
                .toList();
    }

    @Override
    public Order buy(long account, BuyCommand command) {
        Checks.quantity(command.quantity());
        Checks.symbol(command.symbol());
        AccountEntity owner = found(account, LockModeType.PESSIMISTIC_WRITE);
        OrderEntity before = seenBefore(account, command.command());
        if (before != null) {
            return before.order();
        }
        InstrumentEntity instrument = lockInstrument(command.symbol());
        long quote = Trade.quoteNumber(command.symbol(), command.quote(), instrument.trades());
        Trade trade = Trade.buy(command.quantity(), PriceRule.price(command.symbol(), quote), owner.balance());
        Order order = fill(owner, command.symbol(), instrument, quote, trade, command.command(), null);
        entities.persist(new HoldingEntity(order.id(), account, command.symbol(), command.quantity(), trade.price()));
        return order;
    }

    @Override
    public Order sell(long account, SellCommand command) {
        AccountEntity owner = found(account, LockModeType.PESSIMISTIC_WRITE);
        OrderEntity before = seenBefore(account, command.command());
        if (before != null) {
            return before.order();
        }
        long id = holdingId(account, command);
        HoldingEntity holding = entities.find(HoldingEntity.class, id);
        if (holding == null || holding.accountId() != account) {
            throw notHeld(account, id);
        }
        InstrumentEntity instrument = lockInstrument(holding.symbol());
        long quote = Trade.quoteNumber(holding.symbol(), command.quote(), instrument.trades());
        Trade trade = Trade.sell(holding.quantity(), PriceRule.price(holding.symbol(), quote));
        entities.remove(holding);
        return fill(owner, holding.symbol(), instrument, quote, trade, command.command(), id);
    }

    private BrokerageException notHeld(long account, long holding) {
        return entities.createQuery(
                        "select o.id from OrderEntity o where o.closesOrderId = :holding and o.accountId = :account",
                        Long.class)
                .setParameter("holding", holding)
                .setParameter("account", account)
                .getResultStream()
                .findFirst()
                .map(order -> BrokerageException.conflict("holding " + holding + " was sold before, by order " + order))
                .orElseGet(() -> BrokerageException.notFound("there is no holding " + holding + " in this account"));
    }

    private Order fill(
            AccountEntity owner,
            String symbol,
            InstrumentEntity instrument,
            long quote,
            Trade trade,
            String command,
            Long closes) {
        LocalDateTime now = Changes.now();
        instrument.traded(trade.quantity());
        entities.persist(new PricePointEntity(symbol, instrument.trades(), instrument.price()));
        OrderEntity order = new OrderEntity(owner.id(), symbol, trade, quote, instrument.trades(), now);
        order.named(command);
        order.closes(closes);
        entities.persist(order);
        entities.flush();
        entities.persist(new LedgerEntity(order.id(), "CASH", owner.id(), trade.cash()));
        entities.persist(new LedgerEntity(order.id(), "MARKET", owner.id(), trade.market()));
        entities.persist(new LedgerEntity(order.id(), "FEE", owner.id(), trade.fee()));
        owner.change(trade.cash());
        return order.order();
    }

    private AccountEntity found(long account, LockModeType lock) {
        AccountEntity found = entities.find(AccountEntity.class, account, lock);
        if (found == null) {
            throw BrokerageException.notFound("there is no account " + account);
        }
        return found;
    }

    private InstrumentEntity lockInstrument(String symbol) {
        InstrumentEntity found = entities.find(InstrumentEntity.class, symbol, LockModeType.PESSIMISTIC_WRITE);
        if (found == null) {
            throw BrokerageException.notFound("there is no instrument " + symbol);
        }
        return found;
    }

    /** Null for a command without a name or seen for the first time. */
    private OrderEntity seenBefore(long account, String command) {
        if (Checks.command(command) == null) {
            return null;
        }
        return entities.createQuery(
                        "select o from OrderEntity o where o.accountId = :account and o.commandId = :command",
                        OrderEntity.class)
                .setParameter("account", account)
                .setParameter("command", command)
                .getResultStream()
                .findFirst()
                .orElse(null);
    }

    private long holdingId(long account, SellCommand command) {
        if (command.holding() != null) {
            return command.holding();
        }
        if (command.boughtBy() == null) {
            throw BrokerageException.bad("holding is missing");
        }
        OrderEntity bought = seenBefore(account, command.boughtBy());
        if (bought == null || bought.side() != Side.BUY) {
            throw BrokerageException.notFound("no purchase " + command.boughtBy() + " in this account");
        }
        return bought.id();
    }

    @Override
    public Settlement settle(QueuedOrder queued) {
        if (settled(queued)) {
            return new Settlement(Outcome.REPEATED, null);
        }
        Order order;
        try {
            order = queued.buy() == null ? sell(queued.account(), queued.sell()) : buy(queued.account(), queued.buy());
        } catch (BrokerageException refusal) {
            // Refused before anything was written.
            return write(queued, new Settlement(Outcome.REJECTED, null));
        }
        InstrumentEntity instrument = entities.find(InstrumentEntity.class, order.symbol());
        return write(queued, new Settlement(Outcome.FILLED, instrument.quote()));
    }

    @Override
    public Settlement giveUp(QueuedOrder queued) {
        return settled(queued)
                ? new Settlement(Outcome.REPEATED, null)
                : write(queued, new Settlement(Outcome.DEAD, null));
    }

    private boolean settled(QueuedOrder queued) {
        return entities.find(SettledEntity.class, SettledEntity.key(queued)) != null;
    }

    private Settlement write(QueuedOrder queued, Settlement settlement) {
        entities.persist(new SettledEntity(queued, settlement.outcome()));
        // What the database refuses fails the receipt, not the commit: Open MQ counts attempts by the former only.
        entities.flush();
        return settlement;
    }

    @Override
    public AccountView account(long account) {
        List<Order> orders = entities.createQuery(
                        "select o from OrderEntity o where o.accountId = :account order by o.id desc",
                        OrderEntity.class)
                .setParameter("account", account)
                .setMaxResults(LATEST_ORDERS)
                .getResultStream()
                .map(OrderEntity::order)
                .toList();
        return found(account, LockModeType.NONE).view(orders);
    }

    @Override
    public Profile profile(long account) {
        ProfileEntity profile = entities.find(ProfileEntity.class, account);
        if (profile == null) {
            throw BrokerageException.notFound("there is no account " + account);
        }
        return profile.profile();
    }

    @Override
    public void updateProfile(long account, Profile profile) {
        Checks.profile(profile);
        int rows = entities.createQuery("update ProfileEntity p set p.fullName = :fullName, p.address = :address,"
                        + " p.email = :email, p.card = :card, p.updateCount = p.updateCount + 1"
                        + " where p.accountId = :account")
                .setParameter("fullName", profile.fullName())
                .setParameter("address", profile.address())
                .setParameter("email", profile.email())
                .setParameter("card", profile.card())
                .setParameter("account", account)
                .executeUpdate();
        if (rows != 1) {
            throw BrokerageException.notFound("there is no account " + account);
        }
    }

    @Override
    public Login register(Registration wanted) {
        Checks.registration(wanted);
        AccountEntity account = new AccountEntity(
                wanted.user(), Passwords.hash(wanted.password()), wanted.openingBalance(), Changes.now());
        try {
            entities.persist(account);
            entities.flush();
        } catch (PersistenceException e) {
            if (Rows.isDuplicate(sqlCause(e))) {
                throw BrokerageException.conflict("the user name " + wanted.user() + " is taken");
            }
            throw e;
        }
        entities.persist(new ProfileEntity(account.id(), wanted.profile()));
        return new Login(account.id(), wanted.user());
    }

    private static SQLException sqlCause(Throwable thrown) {
        for (Throwable t = thrown; t != null; t = t.getCause()) {
            if (t instanceof SQLException e) {
                return e;
            }
        }
        return null;
    }

    @Override
    public long accounts() {
        return entities.createQuery("select count(a) from AccountEntity a", Long.class)
                .getSingleResult();
    }
}
