package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The probe on stand-ins that look as GlassFish's objects do from outside. */
final class GlassFishProbeTest {
    @TempDir
    Path directory;

    private final FakePool pool = new FakePool();
    private final FakeJdbcConnPoolStatsProvider requests = new FakeJdbcConnPoolStatsProvider("x");

    public record FakeName(String getName) {}

    public static final class FakeCount {
        long count;

        FakeCount(long count) {
            this.count = count;
        }

        public long getCount() {
            return count;
        }
    }

    static final class FakeJdbcConnPoolStatsProvider {
        final FakeName poolInfo;
        final FakeCount numConnCreated = new FakeCount(9);
        final FakeCount numConnDestroyed = new FakeCount(4);
        final FakeCount numConnAcquired = new FakeCount(100);
        final FakeCount totalConnRequestWaitTime = new FakeCount(50);

        FakeJdbcConnPoolStatsProvider(String name) {
            poolInfo = new FakeName(name);
        }
    }

    static final class FakeJdbcStatsProvider {
        final FakeName poolInfo = new FakeName("x");
        final FakeCount numStatementCacheHit = new FakeCount(70);
        final FakeCount numStatementCacheMiss = new FakeCount(30);
    }

    static final class FakeThreadPoolStatsProvider {
        final String name;
        final FakeCount currentThreadsBusy = new FakeCount(3);
        final FakeCount currentThreadCount = new FakeCount(5);
        final FakeCount maxThreadsCount = new FakeCount(8);

        FakeThreadPoolStatsProvider(String name) {
            this.name = name;
        }
    }

    static final class FakeConnectionQueueStatsProvider {
        final String name = "http-listener-1";
        final FakeCount countQueued = new FakeCount(6);
        final Map<Integer, Long> openConnectionsCount = Map.of(1, 1L, 2, 1L);
    }

    public static final class FakePool {
        final FakePool dataStructure = this;
        final List<FakeHandle> handles = List.of(new FakeHandle(7), new FakeHandle(5));

        public FakePool getPoolStatus() {
            return this;
        }

        public int getNumConnUsed() {
            return 2;
        }

        public int getNumConnFree() {
            return 3;
        }

        public int getMaxPoolSize() {
            return 5;
        }

        public FakeQueue getPoolWaitQueue() {
            return new FakeQueue();
        }

        public List<FakeHandle> getAllResources() {
            return handles;
        }
    }

    public static final class FakeQueue {
        public int getQueueLength() {
            return 4;
        }
    }

    public static final class FakeHandle {
        final FakeCache statementCache;

        FakeHandle(int kept) {
            statementCache = new FakeCache(kept);
        }

        public FakeHandle getResource() {
            return this;
        }
    }

    public record FakeCache(int getSize) {}

    private GlassFishProbe probe(Object... collectors) {
        return new GlassFishProbe(new GlassFishProbe.Source() {
            @Override
            public List<Object> collectors() {
                return List.of(collectors);
            }

            @Override
            public Optional<Object> pool(Object info) {
                return info.equals(new FakeName("x")) ? Optional.of(pool) : Optional.empty();
            }
        });
    }

    private Map<String, Double> sample(Probe probe) throws Exception {
        return Samples.of(probe, directory);
    }

    @Test
    void aPoolAndTheMeanWaitOfTheInterval() throws Exception {
        GlassFishProbe probe = probe(requests);
        Map<String, Double> first = sample(probe);
        assertEquals(1, first.get("agent.pools glassfish"));
        assertEquals(2, first.get("pool.in_use x"));
        assertEquals(3, first.get("pool.free x"));
        assertEquals(5, first.get("pool.size x"));
        assertEquals(5, first.get("pool.max x"));
        assertEquals(4, first.get("pool.waiting x"));
        assertEquals(9, first.get("pool.created x"));
        assertEquals(4, first.get("pool.destroyed x"));
        assertEquals(100, first.get("pool.requests x"));
        assertFalse(first.containsKey("pool.wait_ms_mean x"), "no interval yet");
        requests.numConnAcquired.count += 20;
        requests.totalConnRequestWaitTime.count += 30;
        assertEquals(1.5, sample(probe).get("pool.wait_ms_mean x"));
        assertFalse(sample(probe).containsKey("pool.wait_ms_mean x"), "no request, no mean");
    }

    @Test
    void statementsOverAllConnections() throws Exception {
        Map<String, Double> found = sample(probe(new FakeJdbcStatsProvider()));
        assertEquals(100, found.get("statements.uses x"));
        assertEquals(30, found.get("statements.prepared x"));
        assertEquals(12, found.get("statements.kept x"));
        assertEquals(18, found.get("statements.discarded x"));
    }

    @Test
    void threadsThatServeRequestsNotThoseOfTheAdministration() throws Exception {
        Map<String, Double> found = sample(probe(
                new FakeThreadPoolStatsProvider("http-listener-1"),
                new FakeThreadPoolStatsProvider("admin-listener"),
                new FakeConnectionQueueStatsProvider()));
        assertEquals(3, found.get("threads.active http-listener-1"));
        assertEquals(5, found.get("threads.size http-listener-1"));
        assertEquals(8, found.get("threads.max http-listener-1"));
        assertEquals(6, found.get("threads.queue http-listener-1"));
        assertEquals(2, found.get("http.connections http-listener-1"));
        assertFalse(found.keySet().stream().anyMatch(key -> key.endsWith("admin-listener")), found.toString());
    }

    @Test
    void aPoolWithoutConnectionsAndStatisticsThatAreOff() throws Exception {
        Map<String, Double> unused = sample(probe(new FakeJdbcConnPoolStatsProvider("unused")));
        assertEquals(Map.of("agent.pools glassfish", 0.0), unused);
        assertEquals(Map.of("agent.pools glassfish", 0.0), sample(probe()));
    }

    @Test
    void outsideGlassFishThereIsNothingToRead() {
        GlassFishStatistics statistics = new GlassFishStatistics(new Osgi(null)::loaded);
        assertThrows(ClassNotFoundException.class, statistics::collectors);
        assertThrows(ClassNotFoundException.class, () -> statistics.pool("x"));
    }

    public static final class FakeManager {
        static FakeDelegate spmd;
    }

    static final class FakeDelegate {
        final FakeDelegate statsProviderRegistry = this;
        final Map<Object, Object> statsProviderToRegistryElementMap =
                Map.of("on", new FakeElement("on", true), "off", new FakeElement("off", false));
    }

    record FakeElement(Object statsProvider, boolean isEnabled) {}

    public static final class FakeRuntime {
        final Map<Object, Object> poolTable = Map.of("x", "the pool of x");

        public static FakeRuntime getRuntime() {
            return new FakeRuntime();
        }

        public FakeRuntime getPoolManager() {
            return this;
        }
    }

    @Test
    void onlyStatisticsThatAreOnAreRead() throws Exception {
        GlassFishStatistics statistics = new GlassFishStatistics(
                name -> name.endsWith(".StatsProviderManager") ? FakeManager.class : FakeRuntime.class);
        FakeManager.spmd = null;
        assertEquals(List.of(), statistics.collectors(), "all were off at the start");
        FakeManager.spmd = new FakeDelegate();
        assertEquals(List.of("on"), statistics.collectors());
        assertEquals(Optional.of("the pool of x"), statistics.pool("x"));
        assertEquals(Optional.empty(), statistics.pool("y"));
    }
}
