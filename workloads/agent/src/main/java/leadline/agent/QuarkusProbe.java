package leadline.agent;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/** Agroal's pools and the worker threads of a Quarkus application: looked up until there are some. */
final class QuarkusProbe implements Probe {
    private static final int EVERY = 5; // samples: it takes a look at every class that is loaded

    private final QuarkusBeans quarkus;
    private List<Object> pools = List.of();
    private Optional<Object> executor = Optional.empty();
    private int samples;

    QuarkusProbe(QuarkusBeans quarkus) {
        this.quarkus = quarkus;
    }

    @Override
    public void sample(SampleFile out) throws ReflectiveOperationException, IOException {
        if ((pools.isEmpty() || executor.isEmpty()) && samples++ % EVERY == 0) {
            pools = quarkus.pools();
            executor = quarkus.executor();
        }
        int number = 0;
        for (Object pool : pools) {
            Object running = Osgi.field(pool, "connectionPool");
            String subject = pools.size() == 1 ? "agroal" : "agroal-" + number;
            int active = 0;
            int size = 0;
            for (Object connection : QuarkusBeans.connections(pool)) { // it counts them only with metrics on
                size++;
                active += String.valueOf(Osgi.field(connection, "state")).equals("CHECKED_OUT") ? 1 : 0;
            }
            Object configuration =
                    Reflection.get(Reflection.get(pool, "configuration"), "connection-pool-configuration");
            out.add("pool.in_use", subject, active);
            out.add("pool.free", subject, size - active);
            out.add("pool.size", subject, size);
            out.add("pool.max", subject, Reflection.number(configuration, "max-size"));
            out.add("pool.waiting", subject, Reflection.number(running, "awaiting-count"));
            number++;
        }
        out.add("agent.pools", "quarkus", number);
        if (executor.isPresent()) {
            counted(out, "threads.active", "active-count");
            counted(out, "threads.size", "pool-size");
            counted(out, "threads.max", "maximum-pool-size");
            counted(out, "threads.queue", "queue-size");
        }
    }

    /** It says -1 of what it does not count. */
    private void counted(SampleFile out, String metric, String getter) throws IOException {
        double value = Reflection.number(executor.get(), getter);
        out.add(metric, "workers", value < 0 ? Double.NaN : value);
    }
}
