package leadline.agent;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** WildFly's data sources, their statement caches and the worker that runs requests, as its statistics count them. */
final class WildFlyProbe implements Probe {
    private static final String SOURCE = "data-source";
    private static final int EVERY = 5;

    private final Beans sources;
    private final Beans pools;
    private final Beans statements;
    private final Beans workers;
    private final Map<String, Totals> before = new HashMap<>();
    private final Map<String, String> names = new HashMap<>();
    private final Map<String, Double> limits = new HashMap<>();
    private int samples;

    WildFlyProbe(MBeanServer server) throws JMException {
        sources = new Beans(server, "jboss.as:subsystem=datasources,data-source=*");
        pools = new Beans(server, "jboss.as:subsystem=datasources,data-source=*,statistics=pool");
        statements = new Beans(server, "jboss.as:subsystem=datasources,data-source=*,statistics=jdbc");
        workers = new Beans(server, "jboss.as:subsystem=io,worker=*");
    }

    /** So far: nanoseconds of this JVM, requests that had to wait for a connection, milliseconds that they waited. */
    private record Totals(long at, double waits, double waited) {}

    @Override
    public void sample(SampleFile out) throws JMException, IOException {
        if (names.isEmpty() || samples++ % EVERY == 0) {
            look();
        }
        out.add("agent.pools", "wildfly", names.size());
        for (ObjectName name : pools.names()) {
            String own = name.getKeyProperty(SOURCE);
            if (names.containsKey(own)) {
                pool(out, name, names.get(own), limits.get(own));
            }
        }
        for (ObjectName name : statements.names()) {
            String own = name.getKeyProperty(SOURCE);
            if (names.containsKey(own)) {
                statements(out, name, names.get(own));
            }
        }
        for (ObjectName name : workers.names()) {
            Map<String, Object> values = workers.read(name, "busyTaskThreadCount", "maxPoolSize", "queueSize");
            String subject = name.getKeyProperty("worker");
            out.add("threads.active", subject, Beans.number(values, "busyTaskThreadCount"));
            out.add("threads.max", subject, Beans.number(values, "maxPoolSize"));
            out.add("threads.queue", subject, Beans.number(values, "queueSize"));
        }
    }

    /** Each attribute read is an operation of the management model: what does not change is not asked every time. */
    private void look() throws JMException {
        names.clear();
        for (ObjectName name : sources.names()) {
            Map<String, Object> values = sources.read(name, "maxPoolSize", "jndiName", "statisticsEnabled");
            String own = name.getKeyProperty(SOURCE);
            if (Boolean.TRUE.equals(values.get("statisticsEnabled"))) {
                names.put(own, subject(own, values.get("jndiName")));
                limits.put(own, Beans.number(values, "maxPoolSize"));
            }
        }
    }

    /** {@code java:/jdbc/brokerage} as other servers name it. */
    private static String subject(String own, Object jndi) {
        return jndi == null ? own : jndi.toString().replaceFirst("^java:(jboss|comp/env|global|app|module)?/?", "");
    }

    private void pool(SampleFile out, ObjectName name, String subject, double limit) throws JMException, IOException {
        Map<String, Object> values = pools.read(
                name,
                "ActiveCount",
                "InUseCount",
                "WaitCount",
                "TotalBlockingTime",
                "AverageUsageTime",
                "CreatedCount",
                "DestroyedCount");
        double open = Beans.number(values, "ActiveCount");
        double used = Beans.number(values, "InUseCount");
        Totals now = new Totals(
                System.nanoTime(), Beans.number(values, "WaitCount"), Beans.number(values, "TotalBlockingTime"));
        out.add("pool.size", subject, open);
        out.add("pool.in_use", subject, used);
        out.add("pool.free", subject, Math.max(0, open - used));
        out.add("pool.max", subject, limit);
        out.add("pool.waits", subject, now.waits);
        out.add("pool.wait_ms_total", subject, now.waited);
        out.add("pool.use_ms_mean", subject, Beans.number(values, "AverageUsageTime"));
        out.add("pool.created", subject, Beans.number(values, "CreatedCount"));
        out.add("pool.destroyed", subject, Beans.number(values, "DestroyedCount"));
        Totals last = before.put(subject, now);
        if (last != null && now.at > last.at) {
            // How many wait now is not told: by Little's law so many did on average whose waits ended since.
            out.add("pool.waiting", subject, 1e6 * (now.waited - last.waited) / (now.at - last.at));
            double waits = now.waits - last.waits;
            out.add("pool.wait_ms_mean", subject, waits > 0 ? (now.waited - last.waited) / waits : 0);
        }
    }

    private void statements(SampleFile out, ObjectName name, String subject) throws JMException, IOException {
        Map<String, Object> values = statements.read(
                name,
                "PreparedStatementCacheAccessCount",
                "PreparedStatementCacheAddCount",
                "PreparedStatementCacheDeleteCount",
                "PreparedStatementCacheCurrentSize");
        out.add("statements.uses", subject, Beans.number(values, "PreparedStatementCacheAccessCount"));
        out.add("statements.prepared", subject, Beans.number(values, "PreparedStatementCacheAddCount"));
        out.add("statements.discarded", subject, Beans.number(values, "PreparedStatementCacheDeleteCount"));
        out.add("statements.kept", subject, Beans.number(values, "PreparedStatementCacheCurrentSize"));
    }
}
