package leadline.agent;

import java.io.IOException;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Tomcat's pools of Commons DBCP 2 and its HTTP executors. */
final class TomcatProbe implements Probe {
    private final Beans pools;
    private final Beans executors;
    private final Beans connectors;

    TomcatProbe(MBeanServer server) throws JMException {
        pools = new Beans(server, "Catalina:type=DataSource,connectionpool=connections,*");
        executors = new Beans(server, "Catalina:type=Executor,*");
        connectors = new Beans(server, "Catalina:type=ThreadPool,*");
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
