package leadline.agent;

import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Properties of a Spring Boot application as its beans hold them, by reflection: the pool and the web server where they
 * have them, else the bean that the properties were bound to, else the environment.
 *
 * <p>Boot keeps its contexts for its shutdown hook (SpringApplicationShutdownHook.contexts).
 */
final class SpringBeans {
    private static final String APPLICATION = "org.springframework.boot.SpringApplication";
    private static final String PROPERTIES = "org.springframework.boot.context.properties.ConfigurationProperties";
    private static final String HIKARI = "com.zaxxer.hikari.HikariDataSource";
    private static final String HIKARI_PREFIX = "spring.datasource.hikari.";

    /** A class of the application by its name. */
    interface Classes {
        Class<?> loaded(String name) throws ClassNotFoundException;
    }

    private final Classes classes;
    private final String annotation;

    SpringBeans(Classes classes) {
        this(classes, PROPERTIES);
    }

    /** {@code annotation}: the name of the annotation that has a bound bean's prefix. */
    SpringBeans(Classes classes, String annotation) {
        this.classes = classes;
        this.annotation = annotation;
    }

    /** The level in force of {@code spring.datasource.hikari.maximum-pool-size}, say; durations in seconds, sizes in bytes. */
    Object read(String property) throws ReflectiveOperationException {
        List<Object> contexts = contexts();
        if (property.startsWith(HIKARI_PREFIX)) {
            for (Object pool : beans(contexts, HIKARI)) {
                return plain(get(pool, property.substring(HIKARI_PREFIX.length())));
            }
        }
        for (Object context : contexts) {
            for (Object bean : bound(context)) {
                String prefix = prefix(bean.getClass());
                if (!prefix.isEmpty() && property.startsWith(prefix + ".")) {
                    try {
                        Object found = bean;
                        for (String part :
                                property.substring(prefix.length() + 1).split("\\.")) {
                            found = get(found, part);
                        }
                        return plain(found);
                    } catch (NoSuchMethodException elsewhere) {
                        // Another bean has a shorter prefix.
                        continue;
                    }
                }
            }
        }
        for (Object context : contexts) {
            Object environment = Osgi.call(context, "getEnvironment");
            Object found = call(environment, "getProperty", String.class, property);
            if (found != null) {
                return found;
            }
        }
        throw new NoSuchFieldException(property + " is held by no bean of this application");
    }

    /** Has the running pool take {@code PROPERTY=VALUE}; connections above a new maximum are evicted once they are free. */
    void change(String asked) throws ReflectiveOperationException {
        String[] parts = asked.split("=", 2);
        if (!parts[0].startsWith(HIKARI_PREFIX)) {
            throw new NoSuchMethodException(parts[0] + " does not change while the application runs");
        }
        for (Object pool : beans(contexts(), HIKARI)) {
            String setter = "set" + camel(parts[0].substring(HIKARI_PREFIX.length()));
            Method method = method(pool, setter, 1);
            Class<?> type = method.getParameterTypes()[0];
            method.invoke(pool, type == int.class ? (Object) Integer.valueOf(parts[1]) : Long.valueOf(parts[1]));
            Object running = Osgi.call(pool, "getHikariPoolMXBean");
            if (running != null) {
                method(running, "softEvictConnections", 0).invoke(running);
            }
        }
    }

    /** HikariCP's data sources; none where the application has no pool of it. */
    List<Object> pools() throws ReflectiveOperationException {
        try {
            return beans(contexts(), HIKARI);
        } catch (ClassNotFoundException none) {
            return List.of();
        }
    }

    /** Whether this JVM runs a Spring Boot application. */
    boolean present() {
        try {
            return classes.loaded(APPLICATION) != null;
        } catch (ClassNotFoundException none) {
            return false;
        }
    }

    private List<Object> contexts() throws ReflectiveOperationException {
        Field hook = classes.loaded(APPLICATION).getDeclaredField("shutdownHook");
        hook.setAccessible(true);
        return new ArrayList<>((Collection<?>) Osgi.field(hook.get(null), "contexts"));
    }

    private List<Object> beans(List<Object> contexts, String type) throws ReflectiveOperationException {
        List<Object> found = new ArrayList<>();
        for (Object context : contexts) {
            Object named = call(context, "getBeansOfType", Class.class, classes.loaded(type));
            found.addAll(((Map<?, ?>) named).values());
        }
        if (found.isEmpty()) {
            throw new ClassNotFoundException("no bean of " + type);
        }
        return found;
    }

    private Collection<?> bound(Object context) throws ReflectiveOperationException {
        Object named = call(context, "getBeansWithAnnotation", Class.class, classes.loaded(annotation));
        return ((Map<?, ?>) named).values();
    }

    private String prefix(Class<?> type) throws ReflectiveOperationException {
        for (Class<?> above = type; above != null; above = above.getSuperclass()) {
            for (Annotation found : above.getAnnotations()) {
                if (found.annotationType().getName().equals(annotation)) {
                    String prefix = (String) Osgi.call(found, "prefix");
                    return prefix.isEmpty() ? (String) Osgi.call(found, "value") : prefix;
                }
            }
        }
        return "";
    }

    private static Object get(Object target, String part) throws ReflectiveOperationException {
        if (target == null) {
            throw new NoSuchMethodException(part);
        }
        String name = camel(part);
        try {
            return method(target, "get" + name, 0).invoke(target);
        } catch (NoSuchMethodException flag) {
            return method(target, "is" + name, 0).invoke(target);
        }
    }

    private static Object call(Object target, String name, Class<?> type, Object argument)
            throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name, type);
        method.setAccessible(true);
        return method.invoke(target, argument);
    }

    /** Names differ in letters' case only: {@code jdbc-url} is getJdbcUrl, {@code enabled-ssl} may be getEnabledSSL. */
    private static Method method(Object target, String name, int parameters) throws NoSuchMethodException {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equalsIgnoreCase(name) && method.getParameterCount() == parameters) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new NoSuchMethodException(target.getClass().getName() + "." + name);
    }

    private static String camel(String part) {
        StringBuilder name = new StringBuilder();
        for (String word : part.split("-")) {
            name.append(word.substring(0, 1).toUpperCase(Locale.ROOT)).append(word.substring(1));
        }
        return name.toString();
    }

    private static Object plain(Object value) throws ReflectiveOperationException {
        if (value instanceof Duration duration) {
            return duration.toNanos() / 1e9;
        }
        if (value != null && value.getClass().getName().equals("org.springframework.util.unit.DataSize")) {
            return Osgi.call(value, "toBytes");
        }
        return value instanceof Enum<?> word ? word.name() : Values.plain(value);
    }

    /** What went wrong in the application, not in the call of it. */
    static Throwable cause(Exception error) {
        return error instanceof InvocationTargetException wrapped ? wrapped.getCause() : error;
    }
}
