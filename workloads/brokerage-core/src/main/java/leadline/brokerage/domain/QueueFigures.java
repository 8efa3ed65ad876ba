package leadline.brokerage.domain;

import java.time.Instant;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** What has happened to queued orders since the server started, and how long each took from acceptance to effect. */
public final class QueueFigures {
    /** Of this server. */
    public static final QueueFigures ALL = new QueueFigures();

    private static final int FIRST = 1 << 12;
    /** Orders whose times are kept, the first ones: 64 MiB at most. */
    private static final int MOST = 1 << 22;

    private final AtomicLong accepted = new AtomicLong();
    private final AtomicLong redelivered = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    private final AtomicLong received = new AtomicLong();
    private final AtomicInteger inWork = new AtomicInteger();
    private final Map<Outcome, AtomicLong> outcomes = new EnumMap<>(Outcome.class);

    private long[] times = new long[2 * FIRST];
    private int kept;

    public QueueFigures() {
        for (Outcome outcome : Outcome.values()) {
            outcomes.put(outcome, new AtomicLong());
        }
    }

    /** Microseconds of Unix time. */
    public static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    public void accepted() {
        accepted.incrementAndGet();
    }

    public void begin() {
        inWork.incrementAndGet();
    }

    public void end() {
        inWork.decrementAndGet();
    }

    public void redelivered() {
        redelivered.incrementAndGet();
    }

    public void published() {
        published.incrementAndGet();
    }

    public void received() {
        received.incrementAndGet();
    }

    /** The order's effect is committed. */
    public void settled(QueuedOrder order, Outcome outcome) {
        long now = now();
        outcomes.get(outcome).incrementAndGet();
        if (outcome == Outcome.REPEATED) {
            return;
        }
        synchronized (this) {
            if (kept < MOST) {
                if (2 * kept == times.length) {
                    times = Arrays.copyOf(times, 2 * times.length);
                }
                times[2 * kept] = order.acceptedAt();
                times[2 * kept + 1] = now;
                kept++;
            }
        }
    }

    public long acceptedCount() {
        return accepted.get();
    }

    public long redeliveredCount() {
        return redelivered.get();
    }

    public long publishedCount() {
        return published.get();
    }

    public long receivedCount() {
        return received.get();
    }

    public int inWorkCount() {
        return inWork.get();
    }

    public long count(Outcome outcome) {
        return outcomes.get(outcome).get();
    }

    /** Deliveries that ended for good. */
    public long settledCount() {
        return outcomes.values().stream().mapToLong(AtomicLong::get).sum();
    }

    /** Accepted and effective, in turn, microseconds of Unix time, in order of effect. */
    public synchronized long[] times() {
        return Arrays.copyOf(times, 2 * kept);
    }
}
