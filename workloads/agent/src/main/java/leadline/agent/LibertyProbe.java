package leadline.agent;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Open Liberty's connection pools and executor, as its monitor-1.0 feature counts them. */
final class LibertyProbe implements Probe {
    private static final Pattern WAITING = Pattern.compile("(?m)^waiting=(\\d+)");

    private final Beans pools;
    private final Beans managers;
    private final Beans executors;
    private final Map<ObjectName, Wait> waits = new HashMap<>();

    LibertyProbe(MBeanServer server) throws JMException {
        pools = new Beans(server, "WebSphere:type=ConnectionPoolStats,*");
        managers = new Beans(server, "WebSphere:type=com.ibm.ws.jca.cm.mbean.ConnectionManagerMBean,*");
        executors = new Beans(server, "WebSphere:type=ThreadPoolStats,*");
    }

    /** Waits so far: how many and how many milliseconds together. */
    private record Wait(double count, double total) {}

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
        out.add("pool.created", subject, Beans.number(values, "CreateCount"));
        out.add("pool.destroyed", subject, Beans.number(values, "DestroyCount"));
    }
}
