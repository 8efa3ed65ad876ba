package leadline.agent;

import java.lang.annotation.Annotation;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Properties of a Quarkus application by reflection: Agroal's pools and the worker threads where they hold them, else
 * its configuration (MicroProfile's ConfigProvider); the beans are those of its container (io.quarkus.arc.Arc).
 */
final class QuarkusBeans implements Properties {
    private static final String ARC = "io.quarkus.arc.Arc";
    private static final String CONFIG = "org.eclipse.microprofile.config.ConfigProvider";
    private static final String AGROAL = "io.agroal.api.AgroalDataSource";
    private static final String POOL_PREFIX = "quarkus.datasource.jdbc.";
    private static final String EXECUTOR = "io.quarkus.runtime.ExecutorRecorder";
    private static final Map<String, String> OF_EXECUTOR = Map.of(
            "quarkus.thread-pool.max-threads", "maximum-pool-size",
            "quarkus.thread-pool.core-threads", "core-pool-size");

    private final SpringBeans.Classes classes;

    QuarkusBeans(SpringBeans.Classes classes) {
        this.classes = classes;
    }

    /** Whether this JVM runs a Quarkus application. */
    boolean present() {
        try {
            return classes.loaded(ARC) != null;
        } catch (ClassNotFoundException none) {
            return false;
        }
    }

    @Override
    public Object read(String property) throws ReflectiveOperationException {
        if (property.startsWith(POOL_PREFIX)) {
            for (Object pool : pools()) {
                try {
                    return Reflection.plain(
                            Reflection.get(configuration(pool), property.substring(POOL_PREFIX.length())));
                } catch (NoSuchMethodException other) {
                    continue;
                }
            }
        }
        if (OF_EXECUTOR.containsKey(property)) {
            Optional<Object> workers = executor();
            if (workers.isPresent()) {
                return Reflection.get(workers.get(), OF_EXECUTOR.get(property));
            }
        }
        ClassLoader loader = classes.loaded(ARC).getClassLoader();
        Object config =
                classes.loaded(CONFIG).getMethod("getConfig", ClassLoader.class).invoke(null, loader);
        Object value = Reflection.call(config, "getConfigValue", String.class, property);
        Object text = Osgi.call(value, "getValue");
        if (text == null) {
            throw new NoSuchFieldException(property + " has no value in this application");
        }
        return text;
    }

    /** The pool takes it. It closes what is given back above a new maximum; free connections above it are closed here. */
    @Override
    public void change(String asked) throws ReflectiveOperationException {
        String[] parts = asked.split("=", 2);
        if (!parts[0].startsWith(POOL_PREFIX)) {
            throw new NoSuchMethodException(parts[0] + " does not change while the application runs");
        }
        for (Object pool : pools()) {
            Reflection.set(configuration(pool), parts[0].substring(POOL_PREFIX.length()), parts[1]);
            if (parts[0].equals(POOL_PREFIX + "max-size") && connections(pool).size() > Integer.parseInt(parts[1])) {
                var flush = Reflection.method(pool, "flush", 1);
                for (Object mode : flush.getParameterTypes()[0].getEnumConstants()) {
                    if (mode.toString().equals("IDLE")) {
                        flush.invoke(pool, mode);
                    }
                }
            }
        }
    }

    /** The connections of a pool, free and in use. */
    static Collection<?> connections(Object pool) throws ReflectiveOperationException {
        return (Collection<?>) Osgi.field(Osgi.field(pool, "connectionPool"), "allConnections");
    }

    private static Object configuration(Object pool) throws ReflectiveOperationException {
        return Reflection.get(Reflection.get(pool, "configuration"), "connection-pool-configuration");
    }

    /** Agroal's data sources, the client proxies taken off; none where the application has no pool of it. */
    List<Object> pools() throws ReflectiveOperationException {
        Class<?> type;
        try {
            type = classes.loaded(AGROAL);
        } catch (ClassNotFoundException none) {
            return List.of();
        }
        Object container = classes.loaded(ARC).getMethod("container").invoke(null);
        var all = container.getClass().getMethod("listAll", Class.class, Annotation[].class);
        all.setAccessible(true);
        List<Object> found = new ArrayList<>();
        for (Object handle : (List<?>) all.invoke(container, type, new Annotation[0])) {
            Object pool = Osgi.call(handle, "get");
            try {
                found.add(Osgi.call(pool, "arc_contextualInstance"));
            } catch (NoSuchMethodException plain) {
                found.add(pool);
            }
        }
        return found;
    }

    /** The pool of worker threads, of Quarkus itself and of Vert.x. */
    Optional<Object> executor() throws ReflectiveOperationException {
        try {
            Object current = classes.loaded(EXECUTOR).getMethod("getCurrent").invoke(null);
            return current == null ? Optional.empty() : Optional.of(Osgi.field(current, "delegate"));
        } catch (ClassNotFoundException none) {
            return Optional.empty();
        }
    }
}
