package leadline.dealership.sql;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import leadline.common.Money;
import leadline.common.Passwords;
import leadline.common.Rows;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.Checks;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Login;
import leadline.dealership.domain.OrderKind;
import leadline.dealership.domain.OrderLine;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.Prices;
import leadline.dealership.domain.PurchaseCommand;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.SellCommand;

/**
 * What dealers change, on a connection whose transaction somebody else ends. Here and in {@link Plant} locks are taken
 * in the order dealer, work order, sales order, purchase order, finished vehicles by model, parts by id, the rest, each
 * in rising order of ids, so that no two transactions can wait for each other.
 */
public final class Sales {
    /** A command with this beginning fails after its last statement, where {@link #FAULTS} is {@code on}. */
    public static final String ROLLBACK = "rollback-";

    /** System property that lets a driver ask for faults. */
    public static final String FAULTS = "dealership.faults";

    /** The dealer as locked; cents. */
    private record Account(long balance, long creditLimit) {}

    /** The order as locked. */
    record Locked(long dealer, OrderStatus status, long total, int openWork) {}

    private Sales() {}

    public static Login login(Connection c, String name, String password) throws SQLException {
        record Stored(long id, String hash) {}
        Stored stored = name == null || password == null
                ? null
                : Rows.first(c, Sql.LOGIN, row -> new Stored(row.getLong(1), row.getString(2)), name);
        if (stored == null || !Passwords.matches(password, stored.hash())) {
            throw DealershipException.unauthorized("unknown dealer or wrong password");
        }
        Rows.update(c, Sql.COUNT_LOGIN, Readers.now(), stored.id());
        return new Login(stored.id(), name);
    }

    public static SalesOrder purchase(Connection c, long dealer, PurchaseCommand command) throws SQLException {
        Checks.lines(command.lines());
        Checks.command(command.command());
        Account account = lockDealer(c, dealer);
        SalesOrder before = seenBefore(c, dealer, command.command());
        if (before != null) {
            return before;
        }
        List<OrderLine> lines = priced(c, command.lines());
        long total = total(lines);
        if (account.balance() - total < -account.creditLimit()) {
            throw DealershipException.conflict("the order costs " + Money.text(total) + ", balance and credit are "
                    + Money.text(account.balance() + account.creditLimit()));
        }
        boolean large = lines.stream().mapToInt(OrderLine::quantity).sum() >= Dealership.LARGE_QUANTITY;
        LocalDateTime now = Readers.now();
        List<OrderLine> byModel =
                lines.stream().sorted(Comparator.comparing(OrderLine::model)).toList();
        boolean shipped = !large && takenFromStock(c, byModel);
        OrderStatus status = shipped ? OrderStatus.SHIPPED : OrderStatus.OPEN;
        SalesOrder order =
                insert(c, dealer, OrderKind.ORDER, large, status, total, command.command(), now, lines, -total);
        if (shipped) {
            Stock.give(c, dealer, byModel);
        } else if (large) {
            Rows.batch(
                    c,
                    Sql.INSERT_WORK,
                    lines.stream()
                            .map(line -> new Object[] {
                                "LARGE", order.id(), line.line(), line.model(), line.quantity(), JDBCType.VARCHAR, now
                            })
                            .toList());
        } else {
            Rows.batch(
                    c,
                    Sql.INSERT_BACK_ORDER,
                    byModel.stream()
                            .map(line -> new Object[] {order.id(), line.model()})
                            .toList());
        }
        if (command.command() != null
                && command.command().startsWith(ROLLBACK)
                && "on".equals(System.getProperty(FAULTS))) {
            throw DealershipException.conflict("rolled back, as the name of the command asks");
        }
        return order;
    }

    public static SalesOrder cancel(Connection c, long dealer, long id) throws SQLException {
        lockDealer(c, dealer);
        Rows.list(c, Sql.LOCK_WORK_OF_ORDER, row -> row.getLong(1), id);
        Locked order = lockOrder(c, id);
        if (order == null || order.dealer() != dealer) {
            throw DealershipException.notFound("there is no order " + id + " of this dealer");
        }
        if (order.status() != OrderStatus.OPEN) {
            throw DealershipException.conflict("order " + id + " is " + order.status() + ", not OPEN");
        }
        LocalDateTime now = Readers.now();
        Rows.update(c, Sql.CLOSE_ORDER, "CANCELLED", now, id);
        Rows.update(c, Sql.CANCEL_WORK_OF_ORDER, now, id);
        Rows.update(c, Sql.DELETE_BACK_ORDERS, id);
        pay(c, dealer, id, "REFUND", order.total());
        return Queries.order(c, dealer, id);
    }

    public static SalesOrder sell(Connection c, long dealer, SellCommand command) throws SQLException {
        Checks.quantity(command.quantity());
        Checks.model(command.model());
        Checks.command(command.command());
        lockDealer(c, dealer);
        SalesOrder before = seenBefore(c, dealer, command.command());
        if (before != null) {
            return before;
        }
        OrderLine line = priced(c, List.of(new CartLine(command.model(), command.quantity())))
                .get(0);
        OrderLine sold = new OrderLine(1, line.model(), line.quantity(), Prices.retail(line.price()));
        if (Rows.update(c, Sql.TAKE_STOCK, sold.quantity(), dealer, sold.model(), sold.quantity()) == 0) {
            throw DealershipException.conflict("the dealer owns fewer than " + sold.quantity() + " of " + sold.model());
        }
        long total = total(List.of(sold));
        return insert(
                c,
                dealer,
                OrderKind.SALE,
                false,
                OrderStatus.SOLD,
                total,
                command.command(),
                Readers.now(),
                List.of(sold),
                total);
    }

    static Locked lockOrder(Connection c, long id) throws SQLException {
        return Rows.first(
                c,
                Sql.LOCK_ORDER,
                row -> new Locked(row.getLong(1), OrderStatus.valueOf(row.getString(2)), row.getLong(3), row.getInt(4)),
                id);
    }

    private static Account lockDealer(Connection c, long dealer) throws SQLException {
        return Queries.found(
                Rows.first(c, Sql.LOCK_DEALER, row -> new Account(row.getLong(1), row.getLong(2)), dealer),
                "dealer " + dealer);
    }

    /** For those who need only the lock. */
    static void lock(Connection c, long dealer) throws SQLException {
        lockDealer(c, dealer);
    }

    private static SalesOrder seenBefore(Connection c, long dealer, String command) throws SQLException {
        if (command == null) {
            return null;
        }
        List<SalesOrder> orders = Readers.orders(c, Sql.ORDER_BY_COMMAND, dealer, command);
        return orders.isEmpty() ? null : orders.get(0);
    }

    private static List<OrderLine> priced(Connection c, List<CartLine> lines) throws SQLException {
        List<OrderLine> out = new ArrayList<>(lines.size());
        for (CartLine line : lines) {
            Long price = Rows.first(c, Sql.PRICE, row -> row.getLong(1), line.model());
            out.add(new OrderLine(
                    out.size() + 1, line.model(), line.quantity(), Queries.found(price, "model " + line.model())));
        }
        return out;
    }

    private static long total(List<OrderLine> lines) {
        return lines.stream().mapToLong(line -> line.quantity() * line.price()).sum();
    }

    private static boolean takenFromStock(Connection c, List<OrderLine> byModel) throws SQLException {
        Map<String, Integer> stock =
                Stock.lockFinished(c, byModel.stream().map(OrderLine::model).toList());
        if (!Stock.suffices(stock, byModel)) {
            return false;
        }
        Stock.takeFinished(c, stock, byModel);
        return true;
    }

    private static SalesOrder insert(
            Connection c,
            long dealer,
            OrderKind kind,
            boolean large,
            OrderStatus status,
            long total,
            String command,
            LocalDateTime now,
            List<OrderLine> lines,
            long cash)
            throws SQLException {
        long id = Rows.insert(
                c,
                Sql.INSERT_ORDER,
                dealer,
                kind.name(),
                large,
                status.name(),
                total,
                large ? lines.size() : 0,
                command == null ? JDBCType.VARCHAR : command,
                now,
                status.closed() ? now : JDBCType.TIMESTAMP);
        Rows.batch(
                c,
                Sql.INSERT_LINE,
                lines.stream()
                        .map(line -> new Object[] {id, line.line(), line.model(), line.quantity(), line.price()})
                        .toList());
        pay(c, dealer, id, kind == OrderKind.SALE ? "SALE" : "PURCHASE", cash);
        return new SalesOrder(
                id, dealer, kind, large, status, total, command, now, status.closed() ? now : null, lines);
    }

    private static void pay(Connection c, long dealer, long order, String reason, long cash) throws SQLException {
        Rows.batch(c, Sql.INSERT_LEDGER, List.of(new Object[] {order, reason, "CASH", dealer, cash}, new Object[] {
            order, reason, "REVENUE", dealer, -cash
        }));
        Rows.update(c, Sql.PAY, cash, dealer);
    }
}
