package leadline.agent;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** GlassFish's connection pools, statement caches and threads that serve requests, while their statistics are on. */
final class GlassFishProbe implements Probe {
    private static final int EVERY = 5;
    private static final String ADMIN = "admin-listener";

    private final Source source;
    private final Map<String, Totals> before = new HashMap<>();
    private List<Object> collectors = List.of();
    private int samples;

    /** The server's objects, or a stand-in. */
    interface Source {
        /** Collectors of statistics that are on. */
        List<Object> collectors() throws ReflectiveOperationException;

        /** The pool of a collector's {@code PoolInfo}, once it has connections. */
        Optional<Object> pool(Object info) throws ReflectiveOperationException;
    }

    GlassFishProbe(Source source) {
        this.source = source;
    }

    /** So far: requests for a connection that were served, and milliseconds that they took. */
    private record Totals(double served, double waited) {}

    @Override
    public void sample(SampleFile out) throws ReflectiveOperationException, IOException {
        if (collectors.isEmpty() || samples++ % EVERY == 0) {
            collectors = source.collectors();
        }
        int found = 0;
        for (Object collector : collectors) {
            String type = collector.getClass().getSimpleName();
            if (type.endsWith("JdbcConnPoolStatsProvider")) {
                found += pool(out, collector);
            } else if (type.endsWith("JdbcStatsProvider")) {
                statements(out, collector);
            } else if (type.endsWith("ThreadPoolStatsProvider")
                    && !listener(collector).equals(ADMIN)) {
                threads(out, collector);
            } else if (type.endsWith("ConnectionQueueStatsProvider")
                    && !listener(collector).equals(ADMIN)) {
                queue(out, collector);
            }
        }
        out.add("agent.pools", "glassfish", found);
    }

    /** How many connections there are is asked of the pool: the collector counts events and may drift. */
    private int pool(SampleFile out, Object collector) throws ReflectiveOperationException, IOException {
        Object info = Osgi.field(collector, "poolInfo");
        Optional<Object> pool = source.pool(info);
        if (pool.isEmpty()) {
            return 0;
        }
        String subject = subject(info);
        Object status = Osgi.call(pool.get(), "getPoolStatus");
        double used = number(status, "getNumConnUsed");
        double free = number(status, "getNumConnFree");
        out.add("pool.in_use", subject, used);
        out.add("pool.free", subject, free);
        out.add("pool.size", subject, used + free);
        out.add("pool.max", subject, number(pool.get(), "getMaxPoolSize"));
        out.add("pool.waiting", subject, number(Osgi.call(pool.get(), "getPoolWaitQueue"), "getQueueLength"));
        out.add("pool.created", subject, count(collector, "numConnCreated"));
        out.add("pool.destroyed", subject, count(collector, "numConnDestroyed"));
        Totals now = new Totals(count(collector, "numConnAcquired"), count(collector, "totalConnRequestWaitTime"));
        out.add("pool.requests", subject, now.served);
        out.add("pool.wait_ms_total", subject, now.waited);
        Totals last = before.put(subject, now);
        if (last != null && now.served > last.served) {
            // Each is timed in whole milliseconds, whether it had to wait or not.
            out.add("pool.wait_ms_mean", subject, (now.waited - last.waited) / (now.served - last.served));
        }
        return 1;
    }

    /** A statement that was not in its connection's cache is prepared; discards are those that are not kept any more. */
    private void statements(SampleFile out, Object collector) throws ReflectiveOperationException, IOException {
        Object info = Osgi.field(collector, "poolInfo");
        Optional<Object> pool = source.pool(info);
        if (pool.isEmpty()) {
            return;
        }
        String subject = subject(info);
        double kept = 0;
        List<?> connections = (List<?>) Osgi.call(Osgi.field(pool.get(), "dataStructure"), "getAllResources");
        for (Object connection : new ArrayList<>(connections)) {
            Object cache = Osgi.field(Osgi.call(connection, "getResource"), "statementCache");
            if (cache != null) {
                kept += number(cache, "getSize");
            }
        }
        double missed = count(collector, "numStatementCacheMiss");
        out.add("statements.uses", subject, count(collector, "numStatementCacheHit") + missed);
        out.add("statements.prepared", subject, missed);
        out.add("statements.discarded", subject, Math.max(0, missed - kept));
        out.add("statements.kept", subject, kept);
    }

    private static void threads(SampleFile out, Object collector) throws ReflectiveOperationException, IOException {
        String subject = listener(collector);
        out.add("threads.active", subject, count(collector, "currentThreadsBusy"));
        out.add("threads.size", subject, count(collector, "currentThreadCount"));
        out.add("threads.max", subject, count(collector, "maxThreadsCount"));
    }

    private static void queue(SampleFile out, Object collector) throws ReflectiveOperationException, IOException {
        String subject = listener(collector);
        out.add("threads.queue", subject, count(collector, "countQueued"));
        out.add("http.connections", subject, ((Map<?, ?>) Osgi.field(collector, "openConnectionsCount")).size());
    }

    private static String listener(Object collector) throws ReflectiveOperationException {
        return String.valueOf(Osgi.field(collector, "name"));
    }

    private static String subject(Object info) throws ReflectiveOperationException {
        return String.valueOf(Osgi.call(info, "getName"));
    }

    private static double count(Object collector, String name) throws ReflectiveOperationException {
        return number(Osgi.field(collector, name), "getCount");
    }

    private static double number(Object target, String name) throws ReflectiveOperationException {
        return ((Number) Osgi.call(target, name)).doubleValue();
    }
}
