package leadline.agent;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.Lock;

/**
 * Open Liberty's statement caches, of which no MBean tells: the counters in each pooled connection, read by reflection.
 * Where another version keeps them elsewhere there are no figures.
 */
final class LibertyStatementsProbe implements Probe {
    private static final String MANAGER = "com.ibm.ws.jca.cm.mbean.ConnectionManagerMBean";
    private static final int EVERY = 5;

    /** The managers of connections; the lookup of services in the server, or a stand-in. */
    @FunctionalInterface
    interface Managers {
        List<Object> find() throws ReflectiveOperationException;
    }

    private final Managers found;
    private final Map<String, Growth> discarded = new TreeMap<>();
    private List<Object> managers = List.of();
    private int samples;
    private boolean absent;

    LibertyStatementsProbe(Osgi osgi) {
        this(() -> osgi.services(MANAGER));
    }

    LibertyStatementsProbe(Managers found) {
        this.found = found;
    }

    @Override
    public void sample(SampleFile out) throws IOException {
        if (absent) {
            return;
        }
        try {
            if (managers.isEmpty() || samples++ % EVERY == 0) {
                managers = found.find();
            }
            for (Object manager : managers) {
                pool(out, manager);
            }
        } catch (ReflectiveOperationException | ClassCastException otherVersion) {
            absent = true;
        }
    }

    private void pool(SampleFile out, Object manager) throws ReflectiveOperationException, IOException {
        Object pool = Osgi.field(manager, "_pm");
        if (pool == null) {
            return;
        }
        String subject = String.valueOf(Osgi.call(manager, "getJndiName"));
        Growth growth = discarded.computeIfAbsent(subject, any -> new Growth());
        Set<Object> alive = new HashSet<>();
        double kept = 0;
        for (Object connection : connections(pool)) {
            Object cache = Osgi.field(connection, "statementCache");
            if (cache != null) {
                alive.add(cache);
                growth.add(cache, ((Number) Osgi.field(cache, "numDiscards")).doubleValue());
                kept += ((Number) Osgi.field(cache, "numEntries")).doubleValue();
            }
        }
        growth.keep(alive);
        if (!alive.isEmpty() || growth.total() > 0) {
            out.add("statements.discarded", subject, growth.total());
            out.add("statements.kept", subject, kept);
        }
    }

    private static List<Object> connections(Object pool) throws ReflectiveOperationException {
        Lock lock = (Lock) Osgi.field(pool, "mcToMCWMapRead");
        lock.lock();
        try {
            return new ArrayList<>(((Map<?, ?>) Osgi.field(pool, "mcToMCWMap")).keySet());
        } finally {
            lock.unlock();
        }
    }
}
