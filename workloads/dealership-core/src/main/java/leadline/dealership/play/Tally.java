package leadline.dealership.play;

import java.util.Map;
import java.util.TreeMap;
import leadline.common.DriverCount;

/** What was played: transactions by name, and purchase orders as a supplier counts them. */
public final class Tally {
    private final Map<String, DriverCount> counts = new TreeMap<>();
    private long received;
    private long delivered;

    synchronized void count(String transaction, boolean ok) {
        counts.merge(
                transaction,
                new DriverCount(ok ? 1 : 0, ok ? 0 : 1),
                (a, b) -> new DriverCount(a.ok() + b.ok(), a.failed() + b.failed()));
    }

    synchronized void received() {
        received++;
    }

    synchronized void delivered() {
        delivered++;
    }

    public synchronized Map<String, DriverCount> counts() {
        return new TreeMap<>(counts);
    }

    public synchronized long receivedOrders() {
        return received;
    }

    public synchronized long deliveredOrders() {
        return delivered;
    }
}
