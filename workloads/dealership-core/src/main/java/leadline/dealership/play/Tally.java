package leadline.dealership.play;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import leadline.common.DriverCount;

/** What was played: transactions by name, and purchase orders as a supplier counts them. */
public final class Tally {
    private final Map<String, DriverCount> counts = new TreeMap<>();
    private final Set<Long> received = new HashSet<>();
    private final Set<Long> delivered = new HashSet<>();

    synchronized void count(String transaction, boolean ok) {
        counts.merge(
                transaction,
                new DriverCount(ok ? 1 : 0, ok ? 0 : 1),
                (a, b) -> new DriverCount(a.ok() + b.ok(), a.failed() + b.failed()));
    }

    /** A purchase order came, perhaps again. */
    synchronized void received(long order) {
        received.add(order);
    }

    /** A delivery was acknowledged, perhaps again. */
    synchronized void delivered(long order) {
        delivered.add(order);
    }

    public synchronized Map<String, DriverCount> counts() {
        return new TreeMap<>(counts);
    }

    public synchronized long receivedOrders() {
        return received.size();
    }

    public synchronized long deliveredOrders() {
        return delivered.size();
    }
}
