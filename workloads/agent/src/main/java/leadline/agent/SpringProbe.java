package leadline.agent;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/** HikariCP's pools and the web server's threads of a Spring Boot application: beans that stay, so they are looked up until there are some. */
final class SpringProbe implements Probe {
    private static final int EVERY = 5; // samples: it takes a look at every class that is loaded

    private final SpringBeans spring;
    private List<Object> pools = List.of();
    private Optional<WebThreads> web = Optional.empty();
    private int samples;

    SpringProbe(SpringBeans spring) {
        this.spring = spring;
    }

    @Override
    public void sample(SampleFile out) throws ReflectiveOperationException, IOException {
        if ((pools.isEmpty() || web.isEmpty()) && samples++ % EVERY == 0) {
            pools = spring.pools();
            web = spring.web();
        }
        int found = 0;
        for (Object pool : pools) {
            Object running = Osgi.call(pool, "getHikariPoolMXBean");
            if (running != null) { // it is there from the first request on
                String subject = String.valueOf(Osgi.call(pool, "getPoolName"));
                out.add("pool.in_use", subject, Reflection.number(running, "active-connections"));
                out.add("pool.free", subject, Reflection.number(running, "idle-connections"));
                out.add("pool.size", subject, Reflection.number(running, "total-connections"));
                out.add("pool.max", subject, Reflection.number(pool, "maximum-pool-size"));
                out.add("pool.waiting", subject, Reflection.number(running, "threads-awaiting-connection"));
                found++;
            }
        }
        out.add("agent.pools", "spring", found);
        if (web.isPresent()) {
            web.get().sample(out);
        }
    }
}
