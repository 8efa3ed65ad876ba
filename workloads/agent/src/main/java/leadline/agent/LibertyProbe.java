package leadline.agent;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;

/** Open Liberty's connection pools and executor, as its monitor-1.0 feature counts them. */
final class LibertyProbe implements Probe {
    private static final Pattern WAITING = Pattern.compile("(?m)^waiting=(\\d+)");

    private final Beans pools;
    private final Beans managers;
    private final Beans executors;
    private final Map<ObjectName, Totals> before = new HashMap<>();

    LibertyProbe(MBeanServer server) throws JMException {
        pools = new Beans(server, "WebSphere:type=ConnectionPoolStats,*");
        managers = new Beans(server, "WebSphere:type=com.ibm.ws.jca.cm.mbean.ConnectionManagerMBean,*");
        executors = new Beans(server, "WebSphere:type=ThreadPoolStats,*");
    }

    /** So far: uses of a connection that ended, and milliseconds that requests have waited for one. */
    private record Totals(double uses, double waited) {}

    @Override
    public void sample(SampleFile out) throws JMException, IOException {
        out.add("agent.pools", "liberty", pools.names().size());
        for (ObjectName name : pools.names()) {
            pool(out, name);
        }
        for (ObjectName name : managers.names()) {
            Matcher waiting = WAITING.matcher(String.valueOf(managers.invoke(name, "showPoolContents")));
            if (waiting.find()) {
                out.add("pool.waiting", name.getKeyProperty("jndiName"), Double.parseDouble(waiting.group(1)));
            }
        }
        for (ObjectName name : executors.names()) {
            Map<String, Object> values = executors.read(name, "ActiveThreads", "PoolSize");
            String subject = name.getKeyProperty("name");
            out.add("threads.active", subject, Beans.number(values, "ActiveThreads"));
            out.add("threads.size", subject, Beans.number(values, "PoolSize"));
        }
    }

    private void pool(SampleFile out, ObjectName name) throws JMException, IOException {
        Map<String, Object> values = pools.read(
                name,
                "ManagedConnectionCount",
                "MaxConnectionsLimit",
                "FreeConnectionCount",
                "CreateCount",
                "DestroyCount",
                "WaitTimeDetails",
                "InUseTimeDetails");
        String subject = name.getKeyProperty("name");
        double size = Beans.number(values, "ManagedConnectionCount");
        double free = Beans.number(values, "FreeConnectionCount");
        out.add("pool.size", subject, size);
        out.add("pool.free", subject, free);
        out.add("pool.in_use", subject, size - free);
        out.add("pool.max", subject, Beans.number(values, "MaxConnectionsLimit"));
        out.add("pool.created", subject, Beans.number(values, "CreateCount"));
        out.add("pool.destroyed", subject, Beans.number(values, "DestroyCount"));
        Map<String, Object> waits = details(values.get("WaitTimeDetails"));
        Map<String, Object> uses = details(values.get("InUseTimeDetails"));
        Totals now = new Totals(Beans.number(uses, "count"), Beans.number(waits, "total"));
        out.add("pool.requests", subject, now.uses);
        out.add("pool.use_ms_mean", subject, Beans.number(uses, "mean"));
        // Liberty counts only the requests that had to wait; the mean over all requests needs both counters.
        out.add("pool.waits", subject, Beans.number(waits, "count"));
        out.add("pool.wait_ms_total", subject, now.waited);
        Totals last = before.put(name, now);
        if (last != null && now.uses > last.uses) {
            out.add("pool.wait_ms_mean", subject, (now.waited - last.waited) / (now.uses - last.uses));
        }
    }

    private static Map<String, Object> details(Object value) {
        Map<String, Object> fields = new HashMap<>();
        if (value instanceof CompositeData data) {
            for (String key : new String[] {"count", "mean", "total"}) {
                if (data.containsKey(key)) {
                    fields.put(key, data.get(key));
                }
            }
        }
        return fields;
    }
}
