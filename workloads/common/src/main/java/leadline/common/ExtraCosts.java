package leadline.common;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Costs of known size, to show what a measurement finds: every request burns CPU time, waits, holds a lock, allocates,
 * reads a file, makes statements. Only where a system property asks for them; then those that are live are changed by
 * {@code POST} to {@value #PATH} with their names as parameters.
 */
public final class ExtraCosts implements Filter {
    private static final String PATH = "/extra-costs";
    private static final String CPU = "extra_cpu";
    private static final String WAIT = "extra_wait";
    private static final String LOCK = "extra_lock";
    private static final String ALLOCATION = "extra_allocation";
    private static final String READS = "extra_reads";
    private static final String SCANS = "extra_scans";
    private static final String STATEMENTS = "extra_statements";
    private static final List<String> LIVE = List.of(CPU, WAIT, LOCK, ALLOCATION, READS, SCANS);
    private static final Map<String, Integer> MOST = most();
    private static final int STEPS = 32; // between looks at the clock, so that the time goes to code of this class
    private static final String READ = "/proc/self/maps"; // the kernel writes it anew for each reader

    private final Runnable lookUp;
    private final Runnable scan;
    private final Answer answer;
    private volatile long work = 1;
    private volatile byte[][] allocated;
    private final Map<String, Integer> levels = new ConcurrentHashMap<>();
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    /** Sends a value as JSON, with a status. */
    public interface Answer {
        void json(HttpServletResponse response, int status, Map<String, ?> value) throws IOException;
    }

    private ExtraCosts(Runnable lookUp, Runnable scan, Answer answer) {
        this.lookUp = lookUp;
        this.scan = scan;
        this.answer = answer;
    }

    private static Map<String, Integer> most() {
        Map<String, Integer> most = new LinkedHashMap<>();
        LIVE.forEach(name -> most.put(name, 1_000_000));
        most.put(SCANS, 1000);
        most.put(STATEMENTS, 1000);
        return most;
    }

    static String property(String application, String name) {
        return application + "." + name;
    }

    /**
     * As the system properties of the application say; null where none of them is set. {@code lookUp} reads one row by
     * its key, {@code scan} a whole table, each in a transaction of its own.
     */
    public static ExtraCosts configured(String application, Runnable lookUp, Runnable scan, Answer answer) {
        ExtraCosts costs = new ExtraCosts(lookUp, scan, answer);
        for (String name : MOST.keySet()) {
            String property = property(application, name);
            String word = System.getProperty(property);
            if (word != null) {
                costs.levels.put(name, level(name, word, "the system property " + property));
            }
        }
        return costs.levels.isEmpty() ? null : costs;
    }

    private static int level(String name, String word, String what) {
        int most = MOST.get(name);
        try {
            int level = Integer.parseInt(word.strip());
            if (level >= 0 && level <= most) {
                return level;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new IllegalStateException(what + " is \"" + word + "\"; it must be 0 to " + most + ", whole");
    }

    /** What a request costs, by name; 0 for null. */
    public static Map<String, Integer> levels(ExtraCosts costs) {
        Map<String, Integer> found = new LinkedHashMap<>();
        for (String name : MOST.keySet()) {
            found.put(name, costs == null ? 0 : costs.level(name));
        }
        return found;
    }

    private int level(String name) {
        return levels.getOrDefault(name, 0);
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        if (!answers((HttpServletRequest) request, (HttpServletResponse) response)) {
            chain.doFilter(request, response);
        }
    }

    /** Pays for a request; true where it changed the costs and has its answer. */
    public boolean answers(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getRequestURI().equals(request.getContextPath() + PATH)) {
            change(request, response);
            return true;
        }
        pay();
        return false;
    }

    private void change(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (!request.getMethod().equals("POST")) {
            response.setHeader("Allow", "POST");
            answer.json(response, 405, Map.of("error", "this address takes POST only"));
            return;
        }
        Map<String, Integer> wanted = new LinkedHashMap<>();
        try {
            for (String name : LIVE) {
                String word = request.getParameter(name);
                if (word != null) {
                    wanted.put(name, level(name, word, name));
                }
            }
        } catch (IllegalStateException e) {
            answer.json(response, 400, Map.of("error", e.getMessage()));
            return;
        }
        levels.putAll(wanted);
        answer.json(response, 200, levels(this));
    }

    private static long burn(long times, long value) {
        long x = value;
        for (long n = 0; n <= times; n++) {
            x = x * 31 + (x >>> 7) + n;
        }
        return x;
    }

    private static void pause(int micros) {
        long until = System.nanoTime() + TimeUnit.MICROSECONDS.toNanos(micros);
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** Everything, in turn. CPU time is the thread's own, so a busy machine makes it no larger. */
    private void pay() {
        int cpu = level(CPU);
        if (cpu > 0) {
            long until = threads.getCurrentThreadCpuTime() + TimeUnit.MICROSECONDS.toNanos(cpu);
            for (long left = until - threads.getCurrentThreadCpuTime(); left > 0; ) {
                work = burn(left / STEPS, work);
                left = until - threads.getCurrentThreadCpuTime();
            }
        }
        pause(level(WAIT));
        int lock = level(LOCK);
        if (lock > 0) {
            synchronized (this) {
                pause(lock);
            }
        }
        allocate(level(ALLOCATION));
        for (int n = level(READS); n > 0; n--) {
            read();
        }
        repeat(level(SCANS), scan);
        repeat(level(STATEMENTS), lookUp);
    }

    private void allocate(int kib) {
        if (kib > 0) {
            byte[][] blocks = new byte[Math.min(kib, 64)][]; // what a request keeps is small, whatever it allocates
            for (int n = 0; n < kib; n++) {
                blocks[n % blocks.length] = new byte[1024];
            }
            allocated = blocks;
        }
    }

    private static void read() {
        try (InputStream in = new FileInputStream(READ)) {
            byte[] buffer = new byte[1 << 16];
            while (in.read(buffer) > 0) {
                // The time is the kernel's.
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void repeat(int times, Runnable statement) {
        for (int n = 0; n < times; n++) {
            statement.run();
        }
    }
}
