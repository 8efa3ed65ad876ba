package leadline.agent;

import java.lang.instrument.Instrumentation;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;
import javax.management.MBeanServer;

/** Loaded into a running server by attach; the argument is the path of an options file. */
public final class Agent {
    private static Sampler sampler;

    private Agent() {}

    /**
     * Answers once, or starts sampling, as the options say: {@code answer=FILE} writes the configuration in force as
     * JSON before this returns; {@code samples=FILE} writes figures every {@code interval_ms}, those of the file
     * {@code compilations} among them, which the JVM then writes.
     *
     * @throws Exception tells the one who attached; the server goes on
     */
    public static synchronized void agentmain(String argument, Instrumentation instrumentation) throws Exception {
        Path control = Path.of(argument);
        Options options = Options.read(control);
        MBeanServer server = platformServer(instrumentation);
        Optional<Path> answer = options.path("answer");
        if (answer.isPresent()) {
            Osgi osgi = new Osgi(instrumentation);
            QuarkusBeans quarkus = new QuarkusBeans(osgi::loaded);
            Properties properties = quarkus.present() ? quarkus : new SpringBeans(osgi::loaded);
            Answer collected = new Answer(server, new Configurations(osgi), properties);
            Answer.write(answer.get(), collected.collect(options));
        }
        Optional<Path> samples = options.path("samples");
        if (samples.isPresent()) {
            if (sampler != null) {
                sampler.stop();
            }
            sampler = Sampler.start(control, samples.get(), options, server, new Osgi(instrumentation));
        }
    }

    /**
     * The platform's server; made here where nothing made it before. A program may have named a builder for it that
     * only its own class loader finds, and the thread of an attach has no class loader.
     */
    private static MBeanServer platformServer(Instrumentation instrumentation) {
        String builder = System.getProperty("javax.management.builder.initial", "");
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try {
            if (!builder.isEmpty()) {
                loaderOf(builder, instrumentation.getAllLoadedClasses()).ifPresent(thread::setContextClassLoader);
            }
            return ManagementFactory.getPlatformMBeanServer();
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    static Optional<ClassLoader> loaderOf(String name, Class<?>... loaded) {
        return Arrays.stream(loaded)
                .map(found -> found.getClassLoader())
                .filter(Objects::nonNull)
                .distinct()
                .filter(loader -> finds(loader, name))
                .findFirst();
    }

    private static boolean finds(ClassLoader loader, String name) {
        try {
            loader.loadClass(name);
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }
}
