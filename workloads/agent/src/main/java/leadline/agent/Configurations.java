package leadline.agent;

import java.lang.instrument.Instrumentation;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Dictionary;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Configurations that an OSGi framework in this JVM holds (OSGi Compendium, Configuration Admin Service).
 *
 * <p>Open Liberty resolves its server.xml, overrides and variables into them; no MBean shows all of them.
 */
final class Configurations {
    private static final String ADMIN = "org.osgi.service.cm.ConfigurationAdmin";

    private final Instrumentation instrumentation;

    Configurations(Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
    }

    /** Properties of every configuration that fits the LDAP {@code filter}; empty without an OSGi framework. */
    List<Map<String, Object>> find(String filter) throws ReflectiveOperationException {
        Optional<Object> context = bundleContext();
        List<Map<String, Object>> found = new ArrayList<>();
        if (context.isEmpty()) {
            return found;
        }
        Object reference = call(context.get(), "getServiceReference", String.class, ADMIN);
        if (reference == null) {
            return found;
        }
        Object admin = getService(context.get(), reference);
        Object configurations = call(admin, "listConfigurations", String.class, filter);
        for (int i = 0; configurations != null && i < Array.getLength(configurations); i++) {
            Object properties = call(Array.get(configurations, i), "getProperties");
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

    /** The system bundle's context, which may see every service. */
    private Optional<Object> bundleContext() throws ReflectiveOperationException {
        for (Class<?> type : instrumentation.getAllLoadedClasses()) {
            if (!type.getName().equals("org.osgi.framework.FrameworkUtil")) {
                continue;
            }
            // The framework's own loader answers for itself where a bundle is asked for by a class.
            for (Class<?> owned : instrumentation.getAllLoadedClasses()) {
                Object bundle = owned.getClassLoader() != null
                                && owned.getClassLoader().getClass().getName().startsWith("org.eclipse.osgi")
                        ? type.getMethod("getBundle", Class.class).invoke(null, owned)
                        : null;
                Object context = bundle == null ? null : call(bundle, "getBundleContext");
                if (context != null) {
                    return Optional.of(context);
                }
            }
        }
        return Optional.empty();
    }

    private static Object getService(Object context, Object reference) throws ReflectiveOperationException {
        for (Method method : context.getClass().getMethods()) {
            if (method.getName().equals("getService") && method.getParameterCount() == 1) {
                method.setAccessible(true);
                return method.invoke(context, reference);
            }
        }
        throw new NoSuchMethodException("getService");
    }

    private static Object call(Object target, String name) throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }

    private static Object call(Object target, String name, Class<?> type, Object argument)
            throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name, type);
        method.setAccessible(true);
        return method.invoke(target, argument);
    }
}
