package leadline.agent;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Changes of what runs: flags of the JVM, attributes of MBeans, properties of the framework, files that Open Liberty is told have changed. */
final class Changes {
    private static final String FILES = "WebSphere:service=com.ibm.ws.kernel.filemonitor.FileNotificationMBean";

    private final MBeanServer server;
    private final Properties properties;

    Changes(MBeanServer server, Properties properties) {
        this.server = server;
        this.properties = properties;
    }

    /** Makes the changes in the order of their names; the first that is refused ends it, and is told. */
    List<String> make(Options options) {
        HotSpotDiagnosticMXBean jvm = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        String now = "";
        try {
            for (String flag : options.list("flag.")) {
                now = flag;
                String[] parts = flag.split("=", 2);
                jvm.setVMOption(parts[0], parts[1]);
            }
            for (String attribute : options.list("set.")) {
                now = attribute;
                set(attribute);
            }
            for (String property : options.list("property-set.")) {
                now = property;
                properties.change(property);
            }
            List<String> files = options.list("changed.");
            if (!files.isEmpty()) {
                now = files.toString();
                notifyOf(files);
            }
        } catch (JMException | ReflectiveOperationException | RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return List.of(now + ": " + cause);
        }
        return List.of();
    }

    /** {@code PATTERN|attribute|value}, the value in the attribute's own type. */
    private void set(String asked) throws JMException {
        String[] parts = asked.split("\\|", 3);
        Set<ObjectName> names = server.queryNames(new ObjectName(parts[0]), null);
        if (names.isEmpty()) {
            throw new InstanceNotFoundException("there is none");
        }
        for (ObjectName name : names) {
            String type = Arrays.stream(server.getMBeanInfo(name).getAttributes())
                    .filter(attribute -> attribute.getName().equals(parts[1]))
                    .map(MBeanAttributeInfo::getType)
                    .findFirst()
                    .orElse("");
            server.setAttribute(name, new Attribute(parts[1], value(type, parts[2])));
        }
    }

    private static Object value(String type, String text) {
        return switch (type) {
            case "int", "java.lang.Integer" -> Integer.valueOf(text);
            case "long", "java.lang.Long" -> Long.valueOf(text);
            case "boolean", "java.lang.Boolean" -> Boolean.valueOf(text);
            default -> text;
        };
    }

    private void notifyOf(List<String> files) throws JMException {
        String type = Collection.class.getName();
        Object[] changed = {new ArrayList<>(), new ArrayList<>(files), new ArrayList<>()};
        server.invoke(new ObjectName(FILES), "notifyFileChanges", changed, new String[] {type, type, type});
    }
}
