package leadline.agent;

import java.io.IOException;
import java.util.List;

/** HikariCP's pools of a Spring Boot application: beans that stay, so they are looked up until there are some. */
final class SpringProbe implements Probe {
    private static final int EVERY = 5; // samples: it takes a look at every class that is loaded

    private final SpringBeans spring;
    private List<Object> pools = List.of();
    private int samples;

    SpringProbe(SpringBeans spring) {
        this.spring = spring;
    }

    @Override
    public void sample(SampleFile out) throws ReflectiveOperationException, IOException {
        if (pools.isEmpty() && samples++ % EVERY == 0) {
            pools = spring.pools();
        }
        int found = 0;
        for (Object pool : pools) {
            Object running = Osgi.call(pool, "getHikariPoolMXBean");
            if (running != null) { // it is there from the first request on
                String subject = String.valueOf(Osgi.call(pool, "getPoolName"));
                out.add("pool.in_use", subject, number(running, "getActiveConnections"));
                out.add("pool.free", subject, number(running, "getIdleConnections"));
                out.add("pool.size", subject, number(running, "getTotalConnections"));
                out.add("pool.max", subject, number(pool, "getMaximumPoolSize"));
                out.add("pool.waiting", subject, number(running, "getThreadsAwaitingConnection"));
                found++;
            }
        }
        out.add("agent.pools", "spring", found);
    }

    private static double number(Object target, String name) throws ReflectiveOperationException {
        return ((Number) Osgi.call(target, name)).doubleValue();
    }
}
