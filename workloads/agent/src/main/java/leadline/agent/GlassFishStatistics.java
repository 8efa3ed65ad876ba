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

    private final Osgi osgi;
    private Object registry;
    private Object pools;

    GlassFishStatistics(Osgi osgi) {
        this.osgi = osgi;
    }

    @Override
    public List<Object> collectors() throws ReflectiveOperationException {
        if (registry == null) {
            Field delegate = osgi.loaded(MANAGER).getDeclaredField("spmd");
            delegate.setAccessible(true);
            registry = Osgi.field(delegate.get(null), "statsProviderRegistry");
        }
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
            Object runtime = osgi.loaded(CONNECTORS).getMethod("getRuntime").invoke(null);
            pools = Osgi.call(runtime, "getPoolManager");
        }
        return Optional.ofNullable(((Map<?, ?>) Osgi.field(pools, "poolTable")).get(info));
    }
}
