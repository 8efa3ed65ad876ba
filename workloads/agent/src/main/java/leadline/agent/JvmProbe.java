package leadline.agent;

import java.io.Closeable;
import java.io.IOException;
import java.lang.management.CompilationMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.lang.management.ThreadMXBean;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Heap by memory pool, collections so far by collector, compilation and compiled code so far, methods that wait for the
 * compiler, code that it gave up, live threads.
 */
final class JvmProbe implements Probe, Closeable {
    private static final String COMMANDS = "com.sun.management:type=DiagnosticCommand";
    private static final Object[] NO_OPTIONS = {new String[0]};
    private static final String[] OPTIONS = {String[].class.getName()};

    private final MBeanServer server;
    private final ObjectName commands;
    private final List<GarbageCollectorMXBean> collectors = ManagementFactory.getGarbageCollectorMXBeans();
    private final List<MemoryPoolMXBean> pools = ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(pool -> pool.getType() == MemoryType.HEAP)
            .toList();
    private final List<MemoryPoolMXBean> codes = ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(pool -> pool.getName().startsWith("Code"))
            .toList();
    private final CompilationMXBean compiler = ManagementFactory.getCompilationMXBean();
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    private final Deoptimisations deoptimisations;

    /** {@code log}: a file for the JVM to log compilations to. */
    JvmProbe(MBeanServer server, Optional<Path> log) throws JMException {
        this.server = server;
        ObjectName name = new ObjectName(COMMANDS);
        commands = server.isRegistered(name) ? name : null;
        deoptimisations = commands == null ? null : log.map(this::logged).orElse(null);
    }

    /** Null where this JVM does not log them. */
    private Deoptimisations logged(Path file) {
        try {
            return new Deoptimisations(server, commands, file);
        } catch (JMException | IOException | RuntimeException refused) {
            return null;
        }
    }

    @Override
    public void close() throws IOException {
        if (deoptimisations != null) {
            deoptimisations.close();
        }
    }

    @Override
    public void sample(SampleFile out) throws JMException, IOException {
        for (MemoryPoolMXBean pool : pools) {
            MemoryUsage usage = pool.getUsage();
            if (usage != null) {
                out.add("heap.used", pool.getName(), usage.getUsed());
                out.add("heap.committed", pool.getName(), usage.getCommitted());
            }
        }
        for (GarbageCollectorMXBean collector : collectors) {
            out.add("gc.count", collector.getName(), collector.getCollectionCount());
            out.add("gc.time_ms", collector.getName(), collector.getCollectionTime());
        }
        if (compiler != null && compiler.isCompilationTimeMonitoringSupported()) {
            out.add("jit.time_ms", compiler.getName(), compiler.getTotalCompilationTime());
        }
        double code = 0;
        for (MemoryPoolMXBean pool : codes) {
            MemoryUsage usage = pool.getUsage();
            code += usage.getUsed();
            if (usage.getMax() > 0) {
                out.add("jit.code_share", pool.getName(), (double) usage.getUsed() / usage.getMax());
            }
        }
        out.add("jit.code", "server", code);
        out.add("jvm.threads", "server", threads.getThreadCount());
        if (commands != null) {
            Object said = server.invoke(commands, "compilerQueue", NO_OPTIONS, OPTIONS);
            out.add("jit.queue", "server", waiting(said.toString()));
        }
        if (deoptimisations != null) {
            out.add("jit.deoptimised", "server", deoptimisations.count());
        }
    }

    /** Methods in what {@code jcmd Compiler.queue} says: lines that begin with a number, that of the compilation. */
    static long waiting(String said) {
        return said.lines()
                .map(String::stripLeading)
                .filter(line -> !line.isEmpty() && Character.isDigit(line.charAt(0)))
                .count();
    }
}
