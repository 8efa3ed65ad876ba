package leadline.brokerage.web;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import leadline.brokerage.domain.MarketSummary;
import org.junit.jupiter.api.Test;

class SummaryCacheTest {
    private static final long SECOND = 1_000_000_000L;

    private static MarketSummary summary() {
        return new MarketSummary(List.of(), List.of(), List.of());
    }

    @Test
    void livesAsLongAsItMayAndNoLonger() {
        AtomicInteger asked = new AtomicInteger();
        AtomicLong now = new AtomicLong();
        SummaryCache cache = new SummaryCache(
                () -> {
                    asked.incrementAndGet();
                    return summary();
                },
                20,
                now::get);
        cache.get();
        now.set(20 * SECOND - 1);
        cache.get();
        assertEquals(1, asked.get());
        now.set(20 * SECOND);
        cache.get();
        assertEquals(2, asked.get());
    }

    @Test
    void zeroAsksEveryTime() {
        AtomicInteger asked = new AtomicInteger();
        SummaryCache cache = new SummaryCache(
                () -> {
                    asked.incrementAndGet();
                    return summary();
                },
                0);
        cache.get();
        cache.get();
        assertEquals(2, asked.get());
    }

    @Test
    void readersDoNotWaitForARenewal() throws Exception {
        AtomicLong now = new AtomicLong();
        CountDownLatch renewing = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        AtomicInteger asked = new AtomicInteger();
        SummaryCache cache = new SummaryCache(
                () -> {
                    if (asked.incrementAndGet() == 2) {
                        renewing.countDown();
                        await(go);
                    }
                    return summary();
                },
                20,
                now::get);
        MarketSummary old = cache.get();
        now.set(21 * SECOND);
        ExecutorService pool = Executors.newSingleThreadExecutor();
        try {
            Future<MarketSummary> renewed = pool.submit(cache::get);
            await(renewing);
            assertSame(old, cache.get());
            go.countDown();
            assertNotSame(old, renewed.get());
            assertSame(renewed.get(), cache.get());
        } finally {
            go.countDown();
            pool.shutdownNow();
        }
    }

    @Test
    void aFailedRenewalIsTriedAgain() {
        AtomicInteger asked = new AtomicInteger();
        SummaryCache cache = new SummaryCache(
                () -> {
                    if (asked.incrementAndGet() == 1) {
                        throw new IllegalStateException("no database");
                    }
                    return summary();
                },
                20);
        assertThrows(IllegalStateException.class, cache::get);
        cache.get();
        assertEquals(2, asked.get());
    }

    @Test
    void aWrongTimeToLiveIsRefused() {
        System.setProperty(SummaryCache.PROPERTY, "soon");
        try {
            IllegalStateException e = assertThrows(IllegalStateException.class, SummaryCache::configuredSeconds);
            assertEquals(
                    "the system property brokerage.summary.ttl is \"soon\"; it must be 0 to 86400 whole seconds",
                    e.getMessage());
        } finally {
            System.clearProperty(SummaryCache.PROPERTY);
        }
        assertEquals(20, SummaryCache.configuredSeconds());
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
