package leadline.brokerage.web;

import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import leadline.brokerage.domain.MarketSummary;

/**
 * The market summary for a time to live. When it is over one caller renews it while the others go on with the old
 * one; only the very first summary has to be waited for.
 */
final class SummaryCache {
    static final String PROPERTY = "brokerage.summary.ttl";
    private static final long DEFAULT_SECONDS = 20;

    private record Entry(MarketSummary summary, long takenAt) {}

    private final Supplier<MarketSummary> source;
    private final long nanos;
    private final LongSupplier clock;
    private final ReentrantLock renewal = new ReentrantLock();
    private volatile Entry entry;

    SummaryCache(Supplier<MarketSummary> source, long seconds) {
        this(source, seconds, System::nanoTime);
    }

    SummaryCache(Supplier<MarketSummary> source, long seconds, LongSupplier clock) {
        this.source = source;
        this.nanos = seconds * 1_000_000_000L;
        this.clock = clock;
    }

    static long configuredSeconds() {
        String word = System.getProperty(PROPERTY, Long.toString(DEFAULT_SECONDS));
        try {
            long seconds = Long.parseLong(word.strip());
            if (seconds >= 0 && seconds <= 86_400) {
                return seconds;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be 0 to 86400 whole seconds");
    }

    long seconds() {
        return nanos / 1_000_000_000L;
    }

    MarketSummary get() {
        if (nanos == 0) {
            return source.get();
        }
        Entry now = entry;
        if (now == null) {
            renewal.lock();
        } else if (clock.getAsLong() - now.takenAt() < nanos || !renewal.tryLock()) {
            return now.summary();
        }
        try {
            now = entry;
            if (now == null || clock.getAsLong() - now.takenAt() >= nanos) {
                now = new Entry(source.get(), clock.getAsLong());
                entry = now;
            }
            return now.summary();
        } finally {
            renewal.unlock();
        }
    }
}
