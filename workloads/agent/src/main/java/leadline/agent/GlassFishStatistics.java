package leadline.agent;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * GlassFish's collectors of statistics and its pools in this JVM, reached by reflection. Its beans (AMX) would cost
 * seconds of work to bring up, and tell the wait for a connection only as a whole mean since the start.
 */
final class GlassFishStatistics implements GlassFishProbe.Source {
    private static final String MANAGER = "org.glassfish.external.probe.provider.StatsProviderManager";
    private static final String CONNECTORS = "com.sun.enterprise.connectors.ConnectorRuntime";

    private final Classes classes;
    private Field delegate;
    private Object pools;

    /** The server's classes, or stand-ins. */
    @FunctionalInterface
    interface Classes {
        Class<?> loaded(String name) throws ClassNotFoundException;
    }

    GlassFishStatistics(Classes classes) {
        this.classes = classes;
    }

    @Override
    public List<Object> collectors() throws ReflectiveOperationException {
        if (delegate == null) {
            delegate = classes.loaded(MANAGER).getDeclaredField("spmd");
            delegate.setAccessible(true);
        }
        Object statistics = delegate.get(null);
        if (statistics == null) {
            return List.of(); // none is on
        }
        Object registry = Osgi.field(statistics, "statsProviderRegistry");
        List<Object> found = new ArrayList<>();
        for (Object element : ((Map<?, ?>) Osgi.field(registry, "statsProviderToRegistryElementMap")).values()) {
            // Those whose level is OFF are registered, too.
            if (Boolean.TRUE.equals(Osgi.field(element, "isEnabled"))) {
                found.add(Osgi.field(element, "statsProvider"));
            }
        }
        return found;
    }

    @Override
    public Optional<Object> pool(Object info) throws ReflectiveOperationException {
        if (pools == null) {
            Object runtime = classes.loaded(CONNECTORS).getMethod("getRuntime").invoke(null);
            pools = Osgi.call(runtime, "getPoolManager");
        }
        return Optional.ofNullable(((Map<?, ?>) Osgi.field(pools, "poolTable")).get(info));
    }
}
