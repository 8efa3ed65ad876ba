package leadline.agent;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Methods whose optimised code HotSpot has given up, as it logs them ({@code jit+compilation}) to a file from now on. */
final class Deoptimisations implements Closeable {
    // Of level 4: other code gives way to better. "Not used" is said of code that was replaced (JDK 25).
    private static final Pattern GIVEN_UP =
            Pattern.compile("\\s*\\d+\\s[%sb!n* ]*\\s4\\s.*made not entrant(?!: not used).*");

    private final MBeanServer server;
    private final ObjectName commands;
    private final Path file;
    private final InputStream log;
    private String cut = "";
    private long found;

    /** {@code file} is there, and this user may write to it. JMException where the JVM does not log to it. */
    Deoptimisations(MBeanServer server, ObjectName commands, Path file) throws JMException, IOException {
        this.server = server;
        this.commands = commands;
        this.file = file;
        tell("jit+compilation=debug");
        log = Files.newInputStream(file);
    }

    private void tell(String what) throws JMException {
        Object[] asked = {
            new String[] {"output=\"" + file + "\"", "output_options=filecount=0", "what=" + what, "decorators=none"}
        };
        String refused = server.invoke(commands, "vmLog", asked, new String[] {String[].class.getName()})
                .toString();
        if (!refused.isBlank()) {
            throw new JMException(refused);
        }
    }

    /** How many so far. */
    long count() throws IOException {
        String[] lines = (cut + new String(log.readAllBytes(), StandardCharsets.UTF_8)).split("\n", -1);
        cut = lines[lines.length - 1];
        for (int i = 0; i < lines.length - 1; i++) {
            found += isOne(lines[i]) ? 1 : 0;
        }
        return found;
    }

    static boolean isOne(String line) {
        return GIVEN_UP.matcher(line).matches();
    }

    @Override
    public void close() throws IOException {
        try (log) {
            tell("all=off");
        } catch (JMException ended) {
            throw new IOException(ended);
        }
    }
}
