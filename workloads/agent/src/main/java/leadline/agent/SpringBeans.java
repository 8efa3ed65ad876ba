package leadline.agent;

import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Properties of a Spring Boot application as its beans hold them, by reflection: the pool and the web server where they
 * have them, else the bean that the properties were bound to, else the environment.
 *
 * <p>Boot keeps its contexts for its shutdown hook (SpringApplicationShutdownHook.contexts).
 */
final class SpringBeans implements Properties {
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
    @Override
    public Object read(String property) throws ReflectiveOperationException {
        List<Object> contexts = contexts();
        if (property.startsWith(HIKARI_PREFIX)) {
            for (Object pool : beans(contexts, HIKARI)) {
                return Reflection.plain(Reflection.get(pool, property.substring(HIKARI_PREFIX.length())));
            }
        }
        if (WebThreads.known(property)) {
            Optional<WebThreads> web = web();
            if (web.isPresent()) {
                return web.get().read(property);
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
                            found = Reflection.get(found, part);
                        }
                        return Reflection.plain(found);
                    } catch (NoSuchMethodException elsewhere) {
                        // Another bean has a shorter prefix.
                        continue;
                    }
                }
            }
        }
        for (Object context : contexts) {
            Object environment = Osgi.call(context, "getEnvironment");
            Object found = Reflection.call(environment, "getProperty", String.class, property);
            if (found != null) {
                return found;
            }
        }
        throw new NoSuchFieldException(property + " is held by no bean of this application");
    }

    /** Has the running pool take {@code PROPERTY=VALUE}; connections above a new maximum are evicted once they are free. */
    @Override
    public void change(String asked) throws ReflectiveOperationException {
        String[] parts = asked.split("=", 2);
        Optional<WebThreads> web = WebThreads.known(parts[0]) ? web() : Optional.empty();
        if (web.isPresent()) {
            web.get().change(parts[0], parts[1]);
            return;
        }
        if (!parts[0].startsWith(HIKARI_PREFIX)) {
            throw new NoSuchMethodException(parts[0] + " does not change while the application runs");
        }
        for (Object pool : beans(contexts(), HIKARI)) {
            Reflection.set(pool, parts[0].substring(HIKARI_PREFIX.length()), parts[1]);
            Object running = Osgi.call(pool, "getHikariPoolMXBean");
            if (running != null) {
                Reflection.method(running, "softEvictConnections", 0).invoke(running);
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

    /** The web server inside the application; empty where it has none. */
    Optional<WebThreads> web() throws ReflectiveOperationException {
        for (Object context : contexts()) {
            try {
                Object server = Reflection.method(context, "getWebServer", 0).invoke(context);
                if (server != null) {
                    return Optional.of(new WebThreads(server));
                }
            } catch (NoSuchMethodException none) {
                continue;
            }
        }
        return Optional.empty();
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
            Object named = Reflection.call(context, "getBeansOfType", Class.class, classes.loaded(type));
            found.addAll(((Map<?, ?>) named).values());
        }
        if (found.isEmpty()) {
            throw new ClassNotFoundException("no bean of " + type);
        }
        return found;
    }

    private Collection<?> bound(Object context) throws ReflectiveOperationException {
        Object named = Reflection.call(context, "getBeansWithAnnotation", Class.class, classes.loaded(annotation));
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
}
