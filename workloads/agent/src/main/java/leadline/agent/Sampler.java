package leadline.agent;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** One daemon thread that writes a sample every interval until it is stopped or its options file is gone. */
final class Sampler implements Runnable {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Path control;
    private final long interval;
    private final SampleFile out;
    private final JvmProbe jvm;
    private final List<Probe> probes;
    private volatile boolean stopped;

    private Sampler(Path control, long interval, SampleFile out, JvmProbe jvm, List<Probe> probes) {
        this.control = control;
        this.interval = interval;
        this.out = out;
        this.jvm = jvm;
        this.probes = probes;
    }

    /** Starts sampling to {@code samples} every {@code interval_ms}; the JVM logs to {@code compilations}. */
    static Sampler start(Path control, Path samples, Options options, MBeanServer server, Osgi osgi)
            throws IOException, JMException {
        SpringBeans spring = new SpringBeans(osgi::loaded);
        QuarkusBeans quarkus = new QuarkusBeans(osgi::loaded);
        JvmProbe jvm = new JvmProbe(server, options.path("compilations"));
        List<Probe> probes = new ArrayList<>(List.of(jvm));
        if (!server.queryNames(new ObjectName("Catalina:type=Server"), null).isEmpty()) {
            probes.add(new TomcatProbe(server));
            if (!server.queryNames(new ObjectName("openejb.management:*"), null).isEmpty()) {
                probes.add(new TomEEProbe(server));
            }
        } else if (!server.queryNames(new ObjectName("jboss.as:management-root=server"), null)
                .isEmpty()) {
            probes.add(new WildFlyProbe(server));
        } else if (!server.queryNames(new ObjectName("amx-support:type=boot-amx"), null)
                .isEmpty()) {
            probes.add(new GlassFishProbe(new GlassFishStatistics(osgi::loaded)));
        } else if (spring.present()) {
            probes.add(new SpringProbe(spring));
        } else if (quarkus.present()) {
            probes.add(new QuarkusProbe(quarkus));
        } else {
            probes.add(new LibertyProbe(server));
            probes.add(new LibertyStatementsProbe(osgi));
        }
        long interval = TimeUnit.MILLISECONDS.toNanos(options.number("interval_ms", 1000));
        Sampler sampler = new Sampler(control, interval, new SampleFile(samples), jvm, probes);
        Thread thread = new Thread(null, sampler, "leadline-agent", 256 * 1024);
        thread.setDaemon(true);
        thread.start();
        return sampler;
    }

    void stop() {
        stopped = true;
    }

    @Override
    public void run() {
        try (out;
                jvm) {
            long due = System.nanoTime();
            while (!stopped && Files.exists(control)) {
                sample();
                due = Math.max(due + interval, System.nanoTime());
                TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        } catch (Throwable ended) {
            // A full disk or a server that shuts down ends the recording and must not touch the server.
            return;
        }
    }

    /** Writes one sample; figures that cannot be read now are left out. */
    void sample() throws IOException {
        long begin = System.nanoTime();
        long used = THREADS.getCurrentThreadCpuTime();
        Instant now = Instant.now();
        out.at(TimeUnit.SECONDS.toNanos(now.getEpochSecond()) + now.getNano());
        int errors = 0;
        for (Probe probe : probes) {
            try {
                probe.sample(out);
            } catch (JMException | ReflectiveOperationException | RuntimeException gone) {
                errors++;
            }
        }
        out.add("agent.errors", "agent", errors);
        out.add("agent.sample_us", "agent", (System.nanoTime() - begin) / 1000.0);
        out.add("agent.sample_cpu_us", "agent", (THREADS.getCurrentThreadCpuTime() - used) / 1000.0);
        out.flush();
    }
}
