package leadline.agent;

import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Dictionary;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Configurations that an OSGi framework in this JVM holds (OSGi Compendium, Configuration Admin Service).
 *
 * <p>Open Liberty resolves its server.xml, overrides and variables into them; no MBean shows all of them.
 */
final class Configurations {
    private static final String ADMIN = "org.osgi.service.cm.ConfigurationAdmin";

    private final Osgi osgi;

    Configurations(Osgi osgi) {
        this.osgi = osgi;
    }

    /** Properties of every configuration that fits the LDAP {@code filter}; empty without an OSGi framework. */
    List<Map<String, Object>> find(String filter) throws ReflectiveOperationException {
        List<Map<String, Object>> found = new ArrayList<>();
        List<Object> admins = osgi.services(ADMIN);
        if (admins.isEmpty()) {
            return found;
        }
        Object admin = admins.get(0);
        Object configurations = call(admin, "listConfigurations", String.class, filter);
        for (int i = 0; configurations != null && i < Array.getLength(configurations); i++) {
            Object properties = Osgi.call(Array.get(configurations, i), "getProperties");
            if (properties instanceof Dictionary<?, ?> dictionary) {
                found.add(plain(dictionary));
            }
        }
        return found;
    }

    private static Map<String, Object> plain(Dictionary<?, ?> dictionary) {
        Map<String, Object> values = new TreeMap<>();
        for (Enumeration<?> keys = dictionary.keys(); keys.hasMoreElements(); ) {
            Object key = keys.nextElement();
            String name = String.valueOf(key);
            if (!name.toLowerCase().contains("password")) {
                values.put(name, Values.plain(dictionary.get(key)));
            }
        }
        return values;
    }

    private static Object call(Object target, String name, Class<?> type, Object argument)
            throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name, type);
        method.setAccessible(true);
        return method.invoke(target, argument);
    }
}
