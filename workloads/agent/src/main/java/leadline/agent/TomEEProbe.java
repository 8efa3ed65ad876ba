package leadline.agent;

import java.io.IOException;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** TomEE's data sources, which are pools of Tomcat JDBC here; its threads are Tomcat's. It tells no wait time. */
final class TomEEProbe implements Probe {
    private final Beans pools;

    TomEEProbe(MBeanServer server) throws JMException {
        pools = new Beans(server, "openejb.management:ObjectType=datasources,*");
    }

    @Override
    public void sample(SampleFile out) throws JMException, IOException {
        int found = 0;
        for (ObjectName name : pools.names()) {
            // Beans of single connections carry these keys as well.
            if (name.getKeyProperty("connections") == null && pool(out, name)) {
                found++;
            }
        }
        out.add("agent.pools", "tomee", found);
    }

    /** False for a pool without connections: TomEE makes one for every persistence unit that nobody uses. */
    private boolean pool(SampleFile out, ObjectName name) throws JMException, IOException {
        Map<String, Object> values = pools.read(
                name,
                "Active",
                "Idle",
                "Size",
                "MaxActive",
                "WaitCount",
                "BorrowedCount",
                "CreatedCount",
                "ReleasedCount");
        double size = Beans.number(values, "Size");
        if (!(size > 0)) {
            return false;
        }
        String subject = name.getKeyProperty("DataSource").replaceFirst("^jdbc_", "jdbc/");
        out.add("pool.in_use", subject, Beans.number(values, "Active"));
        out.add("pool.free", subject, Beans.number(values, "Idle"));
        out.add("pool.size", subject, size);
        out.add("pool.max", subject, Beans.number(values, "MaxActive"));
        out.add("pool.waiting", subject, Beans.number(values, "WaitCount"));
        out.add("pool.requests", subject, Beans.number(values, "BorrowedCount"));
        out.add("pool.created", subject, Beans.number(values, "CreatedCount"));
        out.add("pool.destroyed", subject, Beans.number(values, "ReleasedCount"));
        return true;
    }
}
