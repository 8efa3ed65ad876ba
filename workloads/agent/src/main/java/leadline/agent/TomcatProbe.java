package leadline.agent;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Tomcat's pools of Commons DBCP 2 and its HTTP executors. */
final class TomcatProbe implements Probe {
    private final Beans pools;
    private final Beans executors;
    private final Beans connectors;
    private final Beans statements;
    private final Map<String, Cache> caches = new HashMap<>();

    TomcatProbe(MBeanServer server) throws JMException {
        pools = new Beans(server, "Catalina:type=DataSource,connectionpool=connections,*");
        executors = new Beans(server, "Catalina:type=Executor,*");
        connectors = new Beans(server, "Catalina:type=ThreadPool,*");
        statements = new Beans(server, "Catalina:type=DataSource,statementpool=statements,*");
    }

    /** A pool's statements over all its connections, so far. */
    private static final class Cache {
        final Growth uses = new Growth();
        final Growth prepared = new Growth();
        final Growth discarded = new Growth();
        double kept;
    }

    @Override
    public void sample(SampleFile out) throws JMException, IOException {
        int found = 0;
        for (ObjectName name : pools.names()) {
            // Beans of single connections and their statements carry these keys as well.
            if (name.getKeyProperty("connection") == null) {
                pool(out, name);
                found++;
            }
        }
        out.add("agent.pools", "tomcat", found);
        for (ObjectName name : executors.names()) {
            Map<String, Object> values = executors.read(name, "activeCount", "poolSize", "maxThreads", "queueSize");
            String subject = name.getKeyProperty("name");
            out.add("threads.active", subject, Beans.number(values, "activeCount"));
            out.add("threads.size", subject, Beans.number(values, "poolSize"));
            out.add("threads.max", subject, Beans.number(values, "maxThreads"));
            out.add("threads.queue", subject, Beans.number(values, "queueSize"));
        }
        for (ObjectName name : connectors.names()) {
            Map<String, Object> values = connectors.read(name, "connectionCount");
            out.add("http.connections", name.getKeyProperty("name"), Beans.number(values, "connectionCount"));
        }
        statements(out);
    }

    /** Each connection has its own cache; what a closed one had counted is kept. */
    private void statements(SampleFile out) throws JMException, IOException {
        Set<ObjectName> names = statements.names();
        caches.values().forEach(cache -> cache.kept = 0);
        for (ObjectName name : names) {
            try {
                statements(name);
            } catch (InstanceNotFoundException closed) {
                // Since the names were looked up: there is no more to read of it.
                continue;
            }
        }
        for (Map.Entry<String, Cache> one : caches.entrySet()) {
            Cache cache = one.getValue();
            cache.uses.keep(names);
            cache.prepared.keep(names);
            cache.discarded.keep(names);
            out.add("statements.uses", one.getKey(), cache.uses.total());
            out.add("statements.prepared", one.getKey(), cache.prepared.total());
            out.add("statements.discarded", one.getKey(), cache.discarded.total());
            out.add("statements.kept", one.getKey(), cache.kept);
        }
    }

    private void statements(ObjectName name) throws JMException {
        Map<String, Object> values =
                statements.read(name, "BorrowedCount", "CreatedCount", "DestroyedCount", "NumIdle", "NumActive");
        Cache cache = caches.computeIfAbsent(name.getKeyProperty("name"), subject -> new Cache());
        cache.uses.add(name, Beans.number(values, "BorrowedCount"));
        cache.prepared.add(name, Beans.number(values, "CreatedCount"));
        cache.discarded.add(name, Beans.number(values, "DestroyedCount"));
        cache.kept += Beans.number(values, "NumIdle") + Beans.number(values, "NumActive");
    }

    private void pool(SampleFile out, ObjectName name) throws JMException, IOException {
        Map<String, Object> values = pools.read(
                name,
                "NumActive",
                "NumIdle",
                "MaxTotal",
                "NumWaiters",
                "MeanBorrowWaitTimeMillis",
                "MeanActiveTimeMillis",
                "BorrowedCount",
                "CreatedCount",
                "DestroyedCount");
        String subject = name.getKeyProperty("name");
        double active = Beans.number(values, "NumActive");
        double idle = Beans.number(values, "NumIdle");
        out.add("pool.in_use", subject, active);
        out.add("pool.free", subject, idle);
        out.add("pool.size", subject, active + idle);
        out.add("pool.max", subject, Beans.number(values, "MaxTotal"));
        out.add("pool.waiting", subject, Beans.number(values, "NumWaiters"));
        // Over the last hundred requests, with the check or the opening of the connection that each was given.
        out.add("pool.wait_ms_mean", subject, Beans.number(values, "MeanBorrowWaitTimeMillis"));
        out.add("pool.use_ms_mean", subject, Beans.number(values, "MeanActiveTimeMillis"));
        out.add("pool.requests", subject, Beans.number(values, "BorrowedCount"));
        out.add("pool.created", subject, Beans.number(values, "CreatedCount"));
        out.add("pool.destroyed", subject, Beans.number(values, "DestroyedCount"));
    }
}
