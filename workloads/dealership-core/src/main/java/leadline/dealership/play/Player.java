package leadline.dealership.play;

import java.sql.SQLException;
import java.time.Clock;
import java.time.LocalDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import leadline.common.DataFailure;
import leadline.dealership.data.Generator;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseCommand;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.ScheduleCommand;
import leadline.dealership.domain.SellCommand;
import leadline.dealership.domain.StockLine;
import leadline.dealership.domain.WorkKind;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.sql.Sales;

/**
 * One thread's transactions: a dealer's, then some of the plant's. Some commands and deliveries are sent twice, some
 * purchases ask to be rolled back. The threads share dealers, models and parts. When the
 * database dies, they go on with the next one that listens there.
 */
public final class Player {
    private static final int WAITING_WORK = 4;
    private static final int MOST_WAITING = 20;
    private static final boolean FAULTS = "on".equals(System.getProperty(Sales.FAULTS));

    private final Dealership dealership;
    private final Tally tally;
    private final SplittableRandom random;
    private final String prefix;
    private final long dealers;
    private final int models;
    private final Deque<WorkOrder> work = new ArrayDeque<>();
    private final Deque<PurchaseOrder> sent = new ArrayDeque<>();
    private int commands;

    private Player(Dealership dealership, Tally tally, long seed, int thread, long dealers, int models) {
        this.dealership = dealership;
        this.tally = tally;
        this.random = new SplittableRandom(seed * 0x9E3779B97F4A7C15L + thread);
        this.prefix = "play-" + seed + "-" + thread + "-";
        this.dealers = dealers;
        this.models = models;
    }

    /**
     * Plays {@code rounds} in each of the threads, each with what {@code dealerships} gives it; in the end there is an
     * order in every state.
     *
     * @param models how many models are traded; few make orders wait
     */
    public static Tally play(
            Supplier<? extends Dealership> dealerships, int threads, int rounds, long seed, long dealers, int models)
            throws Exception {
        Tally tally = new Tally();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Callable<Void>> parts = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                Player player = new Player(dealerships.get(), tally, seed, i, dealers, models);
                parts.add(() -> {
                    for (int round = 0; round < rounds; round++) {
                        player.dealer();
                        player.plant();
                    }
                    player.deliverAll();
                    return null;
                });
            }
            for (Future<Void> part : pool.invokeAll(parts)) {
                part.get();
            }
            new Player(dealerships.get(), tally, seed, threads, dealers, models).finale();
            return tally;
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            pool.shutdownNow();
        }
    }

    private String command() {
        return prefix + ++commands;
    }

    private String model() {
        return Generator.model(random.nextInt(models) + 1);
    }

    /** Null when it was refused, or when the database failed and nobody knows whether it was done. */
    private <T> T counted(String transaction, Supplier<T> operation) {
        try {
            T result = operation.get();
            tally.count(transaction, true);
            return result;
        } catch (DealershipException refusal) {
            tally.count(transaction, false);
            return null;
        } catch (DataFailure failure) {
            connectionLost(failure);
            tally.count(transaction, false);
            return null;
        }
    }

    /** Throws every other failure again: a deadlock, say, is none to go on after. */
    private static void connectionLost(DataFailure failure) {
        String state = failure.getCause() instanceof SQLException e ? String.valueOf(e.getSQLState()) : "";
        if (!state.startsWith("08") && !state.startsWith("57P")) {
            throw failure;
        }
    }

    private void dealer() {
        long dealer = random.nextLong(dealers) + 1;
        if (random.nextInt(10) == 0) {
            counted("login", () -> dealership.login(Generator.dealerName(dealer), Generator.password(dealer)));
        }
        int kind = random.nextInt(100);
        if (kind < 50) {
            counted("browse", () -> browse(dealer));
        } else if (kind < 75) {
            purchase(dealer);
        } else {
            manage(dealer);
        }
    }

    private Object browse(long dealer) {
        dealership.home(dealer);
        List<Model> page = dealership.models("", 10);
        page = dealership.models(page.get(page.size() - 1).id(), 10);
        page = dealership.modelsBefore(page.get(0).id(), 10);
        return dealership.model(page.get(0).id());
    }

    private void purchase(long dealer) {
        boolean large = random.nextInt(10) == 0;
        List<CartLine> lines = cart(large ? random.nextInt(110, 171) : random.nextInt(4, 25));
        if (random.nextInt(20) == 0 && FAULTS) {
            counted(
                    large ? "purchase_large" : "purchase",
                    () -> dealership.purchase(dealer, new PurchaseCommand("rollback-" + command(), lines)));
            return;
        }
        PurchaseCommand command = new PurchaseCommand(command(), lines);
        counted(large ? "purchase_large" : "purchase", () -> {
            SalesOrder order = dealership.purchase(dealer, command);
            if (random.nextInt(10) == 0 && dealership.purchase(dealer, command).id() != order.id()) {
                throw new IllegalStateException("command " + command.command() + " made two orders");
            }
            return order;
        });
    }

    private List<CartLine> cart(int vehicles) {
        List<CartLine> lines = new ArrayList<>();
        int wanted = Math.min(random.nextInt(1, 6), Math.min(models, vehicles));
        int first = random.nextInt(models);
        for (int i = 0; i < wanted; i++) {
            int share = vehicles / wanted + (i < vehicles % wanted ? 1 : 0);
            lines.add(new CartLine(Generator.model((first + i) % models + 1), share));
        }
        return lines;
    }

    private void manage(long dealer) {
        List<SalesOrder> open;
        List<StockLine> stock;
        try {
            open = dealership.openOrders(dealer).stream()
                    .filter(order -> order.status() == OrderStatus.OPEN)
                    .toList();
            stock = dealership.inventory(dealer);
        } catch (DataFailure failure) {
            connectionLost(failure);
            tally.count("manage_sell", false);
            return;
        }
        if (!open.isEmpty() && random.nextInt(2) == 0) {
            counted("manage_cancel", () -> dealership.cancel(dealer, open.get(0).id()));
            return;
        }
        StockLine line = stock.get(random.nextInt(stock.size()));
        SellCommand command =
                new SellCommand(command(), line.model(), random.nextInt(1, Math.min(line.quantity(), 20) + 1));
        counted("manage_sell", () -> {
            SalesOrder sale = dealership.sell(dealer, command);
            if (random.nextInt(10) == 0 && dealership.sell(dealer, command).id() != sale.id()) {
                throw new IllegalStateException("command " + command.command() + " made two sales");
            }
            return sale;
        });
    }

    private void plant() {
        deliver();
        int kind = random.nextInt(10);
        if (kind < 3) {
            ScheduleCommand command = new ScheduleCommand(command(), model(), random.nextInt(1, 11));
            add(counted("schedule", () -> {
                dealership.schedule(command);
                return dealership.schedule(command);
            }));
        } else if (kind == 3) {
            add(claim());
        } else {
            WorkOrder next = work.pollFirst();
            if (next != null) {
                step(next, kind);
            }
        }
    }

    private void add(WorkOrder order) {
        if (order != null) {
            work.addLast(order);
        }
        while (work.size() > WAITING_WORK) {
            step(work.pollFirst(), 9);
        }
    }

    private void step(WorkOrder order, int kind) {
        if (order.kind() == WorkKind.PLANNED && random.nextInt(20) == 0) {
            counted("cancel_work", () -> dealership.cancelWork(order.id()));
            return;
        }
        if (order.stage() == Dealership.LAST_STAGE) {
            int scrap = order.kind() == WorkKind.PLANNED && order.quantity() > 1 && random.nextInt(10) == 0 ? 1 : 0;
            counted("complete", () -> dealership.complete(order.id(), order.quantity() - scrap));
            return;
        }
        if (kind == 4) {
            sent(counted(
                    "request_parts",
                    () -> dealership.requestParts(
                            order.id(),
                            List.of(
                                    new PartLine(Generator.part(random.nextInt(100, 200)), random.nextInt(1, 50)),
                                    new PartLine(Generator.part(random.nextInt(1, 100)), random.nextInt(1, 50))))));
        }
        Advance advance = counted("advance", () -> dealership.advance(order.id()));
        if (advance != null) {
            sent(advance.ordered());
            work.addLast(advance.work());
        }
        counted("status", () -> dealership.status(order.id()));
    }

    private void sent(PurchaseOrder order) {
        if (order != null) {
            tally.received(order.id());
            sent.addLast(order);
        }
    }

    /** Delivers an order some time after it was sent, now and then twice. */
    private void deliver() {
        if (sent.isEmpty() || random.nextInt(3) > 0) {
            return;
        }
        PurchaseOrder order = sent.pollFirst();
        try {
            for (int i = random.nextInt(5) == 0 ? 2 : 1; i > 0; i--) {
                dealership.deliver(order.id(), order.lines());
                tally.delivered(order.id());
            }
        } catch (DataFailure failure) {
            connectionLost(failure);
            sent.addLast(order);
        }
    }

    private void deliverAll() {
        while (!sent.isEmpty()) {
            deliver();
        }
    }

    /** Delivers what was ordered in a transaction whose outcome nobody was told. */
    private void sweep() {
        LocalDateTime all = LocalDateTime.now(Clock.systemUTC()).plusDays(1);
        for (List<PurchaseOrder> left = undelivered(all); !left.isEmpty(); left = undelivered(all)) {
            left.forEach(this::sent);
            deliverAll();
        }
    }

    private List<PurchaseOrder> undelivered(LocalDateTime before) {
        return dealership.undelivered(before, Dealership.MOST_ROWS);
    }

    /** Ships every large order, then leaves one PRODUCING, one OPEN, one CANCELLED, and a small one waiting. */
    private void finale() {
        sweep();
        buy(1, 140);
        for (WorkOrder claimed = claim(); claimed != null; claimed = claim()) {
            build(claimed);
        }
        buy(2, 140);
        claim();
        buy(3, 140);
        SalesOrder last = buy(4, 140);
        counted("manage_cancel", () -> dealership.cancel(4, last.id()));
        build(counted("schedule", () -> dealership.schedule(new ScheduleCommand(command(), model(), 5))));
        WorkOrder unwanted = counted("schedule", () -> dealership.schedule(new ScheduleCommand(command(), model(), 5)));
        counted("cancel_work", () -> dealership.cancelWork(unwanted.id()));
        for (int dealer = 1; dealer <= MOST_WAITING; dealer++) {
            if (buy(dealer, 20).status() == OrderStatus.OPEN) {
                return;
            }
        }
    }

    private SalesOrder buy(long dealer, int vehicles) {
        List<CartLine> lines = List.of(new CartLine(Generator.model(1), vehicles));
        return counted(
                vehicles < Dealership.LARGE_QUANTITY ? "purchase" : "purchase_large",
                () -> dealership.purchase(dealer, new PurchaseCommand(command(), lines)));
    }

    private WorkOrder claim() {
        try {
            WorkOrder claimed = dealership.claimLarge().orElse(null);
            if (claimed != null) {
                tally.count("claim_large", true);
            }
            return claimed;
        } catch (DataFailure failure) {
            connectionLost(failure);
            tally.count("claim_large", false);
            return null;
        }
    }

    private void build(WorkOrder order) {
        WorkOrder now = order;
        while (now.stage() < Dealership.LAST_STAGE) {
            Advance advance = counted("advance", () -> dealership.advance(order.id()));
            sent(advance.ordered());
            deliverAll();
            now = advance.work();
        }
        counted("complete", () -> dealership.complete(order.id(), order.quantity()));
    }
}
