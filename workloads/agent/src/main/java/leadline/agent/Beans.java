package leadline.agent;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** MBeans that fit a pattern, looked up again every few samples: a pool may appear with its first use. */
final class Beans {
    private static final int EVERY = 5;

    private final MBeanServer server;
    private final ObjectName pattern;
    private Set<ObjectName> names = Set.of();
    private int samples;

    Beans(MBeanServer server, String pattern) throws JMException {
        this.server = server;
        this.pattern = new ObjectName(pattern);
    }

    Set<ObjectName> names() {
        if (names.isEmpty() || samples++ % EVERY == 0) {
            names = server.queryNames(pattern, null);
        }
        return names;
    }

    /** The named attributes that the MBean has. */
    Map<String, Object> read(ObjectName name, String... attributes) throws JMException {
        Map<String, Object> values = new HashMap<>();
        for (Attribute attribute : server.getAttributes(name, attributes).asList()) {
            values.put(attribute.getName(), attribute.getValue());
        }
        return values;
    }

    Object invoke(ObjectName name, String operation) throws JMException {
        return server.invoke(name, operation, null, null);
    }

    static double number(Map<String, Object> values, String name) {
        return values.get(name) instanceof Number number ? number.doubleValue() : Double.NaN;
    }
}
