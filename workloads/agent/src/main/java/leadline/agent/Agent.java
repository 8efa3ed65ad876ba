package leadline.agent;

import java.lang.instrument.Instrumentation;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Optional;
import javax.management.MBeanServer;

/** Loaded into a running server by attach; the argument is the path of an options file. */
public final class Agent {
    private static Sampler sampler;

    private Agent() {}

    /**
     * Answers once, or starts sampling, as the options say: {@code answer=FILE} writes the configuration in force as
     * JSON before this returns; {@code samples=FILE} writes figures every {@code interval_ms}.
     *
     * @throws Exception tells the one who attached; the server goes on
     */
    public static synchronized void agentmain(String argument, Instrumentation instrumentation) throws Exception {
        Path control = Path.of(argument);
        Options options = Options.read(control);
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        Optional<Path> answer = options.path("answer");
        if (answer.isPresent()) {
            Answer.write(answer.get(), new Answer(server, new Configurations(instrumentation)).collect(options));
        }
        Optional<Path> samples = options.path("samples");
        if (samples.isPresent()) {
            if (sampler != null) {
                sampler.stop();
            }
            sampler = Sampler.start(control, samples.get(), options.number("interval_ms", 1000), server);
        }
    }
}
