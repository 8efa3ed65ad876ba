package leadline.agent;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** The configuration in force in this JVM: flags, attributes of MBeans, OSGi configurations, the framework's properties. */
final class Answer {
    private final MBeanServer server;
    private final Configurations configurations;
    private final Properties properties;

    Answer(MBeanServer server, Configurations configurations, Properties properties) {
        this.server = server;
        this.configurations = configurations;
        this.properties = properties;
    }

    /** Makes the changes that {@code options} ask for, then tells the rest; a part that cannot be read is answered with its error under "errors". */
    Map<String, Object> collect(Options options) {
        Map<String, Object> answer = new LinkedHashMap<>();
        Map<String, Object> errors = new LinkedHashMap<>();
        answer.put("refused", new Changes(server, properties).make(options));
        answer.put("flags", flags(options));
        for (String operation : options.list("invoke.")) {
            try {
                invoke(operation);
            } catch (JMException | RuntimeException error) {
                errors.put(operation, error.toString());
            }
        }
        Map<String, Object> beans = new TreeMap<>();
        for (String pattern : options.list("bean.")) {
            try {
                beans.putAll(beans(pattern));
            } catch (JMException | RuntimeException error) {
                errors.put(pattern, error.toString());
            }
        }
        answer.put("beans", beans);
        Map<String, Object> found = new LinkedHashMap<>();
        for (String filter : options.list("configuration.")) {
            try {
                found.put(filter, configurations.find(filter));
            } catch (ReflectiveOperationException | RuntimeException error) {
                errors.put(filter, error.toString());
            }
        }
        answer.put("configurations", found);
        answer.put("properties", properties(options, errors));
        answer.put("errors", errors);
        return answer;
    }

    private Map<String, Object> properties(Options options, Map<String, Object> errors) {
        Map<String, Object> found = new TreeMap<>();
        for (String property : options.list("property.")) {
            try {
                found.put(property, properties.read(property));
            } catch (ReflectiveOperationException | RuntimeException error) {
                errors.put(property, Reflection.cause(error).toString());
            }
        }
        return found;
    }

    /** Into the file that was made for it: the server's user may make none beside it. Who attached waits for the end. */
    static void write(Path file, Map<String, Object> answer) throws IOException {
        Files.writeString(file, Json.write(answer));
    }

    private static Map<String, String> flags(Options options) {
        HotSpotDiagnosticMXBean jvm = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        Map<String, String> flags = new LinkedHashMap<>();
        for (String flag : options.words("flags")) {
            try {
                flags.put(flag, jvm.getVMOption(flag).getValue());
            } catch (IllegalArgumentException absent) {
                // This JVM has no such flag: left out of the answer.
                continue;
            }
        }
        return flags;
    }

    /** An operation without parameters, {@code PATTERN|operation}; some servers show their beans only after one. */
    private void invoke(String asked) throws JMException {
        String[] parts = asked.split("\\|", 2);
        for (ObjectName name : server.queryNames(new ObjectName(parts[0]), null)) {
            server.invoke(name, parts[1], null, null);
        }
    }

    /** MBeans by {@code PATTERN|attribute,...}; those without any of the attributes are there, but empty. */
    private Map<String, Object> beans(String asked) throws JMException {
        String[] parts = asked.split("\\|", 2);
        String[] attributes = parts.length < 2 ? new String[0] : parts[1].split(",");
        Map<String, Object> found = new TreeMap<>();
        for (ObjectName name : server.queryNames(new ObjectName(parts[0]), null)) {
            Map<String, Object> values = new TreeMap<>();
            try {
                for (Attribute attribute :
                        server.getAttributes(name, attributes).asList()) {
                    values.put(attribute.getName(), Values.plain(attribute.getValue()));
                }
            } catch (InstanceNotFoundException gone) {
                // Such as a connection that its pool has closed in the meantime.
                continue;
            }
            found.put(name.getCanonicalName(), values);
        }
        return found;
    }
}
