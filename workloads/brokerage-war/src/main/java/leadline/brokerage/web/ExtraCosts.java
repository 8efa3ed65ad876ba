package leadline.brokerage.web;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import leadline.brokerage.domain.Brokerage;

/**
 * Costs of known size, to show what a measurement finds: every request burns CPU time, waits, holds a lock, reads a quote
 * some times more. Only where a system property asks for them; then those that are live are changed by {@code POST} to {@value
 * #PATH} with their names as parameters.
 */
final class ExtraCosts implements Filter {
    static final String PATH = "/extra-costs";
    static final String CPU = "extra_cpu";
    static final String WAIT = "extra_wait";
    static final String LOCK = "extra_lock";
    static final String STATEMENTS = "extra_statements";
    private static final Map<String, Integer> MOST =
            Map.of(CPU, 1_000_000, WAIT, 1_000_000, LOCK, 1_000_000, STATEMENTS, 1000);
    private static final List<String> LIVE = List.of(CPU, WAIT, LOCK);
    private static final List<String> SYMBOL = List.of("S00001");

    private static final int STEPS = 32; // between looks at the clock, so that the time goes to code of this class

    private final Application application;
    private volatile long work = 1;
    private final Map<String, Integer> levels = new ConcurrentHashMap<>();
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    private ExtraCosts(Application application) {
        this.application = application;
    }

    static String property(String name) {
        return "brokerage." + name;
    }

    /** As the system properties say; null where none of them is set. */
    static ExtraCosts configured(Application application) {
        ExtraCosts costs = new ExtraCosts(application);
        for (String name : MOST.keySet()) {
            String word = System.getProperty(property(name));
            if (word != null) {
                costs.levels.put(name, level(name, word, "the system property " + property(name)));
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

    /** What a request costs, by name: microseconds of CPU time, microseconds of waiting and with the lock, statements. */
    static Map<String, Integer> levels(ExtraCosts costs) {
        Map<String, Integer> found = new LinkedHashMap<>();
        for (String name : List.of(CPU, WAIT, LOCK, STATEMENTS)) {
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
        HttpServletRequest asked = (HttpServletRequest) request;
        if (asked.getRequestURI().equals(asked.getContextPath() + PATH)) {
            change(asked, (HttpServletResponse) response);
            return;
        }
        pay();
        chain.doFilter(request, response);
    }

    private void change(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (!request.getMethod().equals("POST")) {
            response.setHeader("Allow", "POST");
            Replies.json(response, 405, Map.of("error", "this address takes POST only"));
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
            Replies.json(response, 400, Map.of("error", e.getMessage()));
            return;
        }
        levels.putAll(wanted);
        Replies.json(response, 200, levels(this));
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
        int statements = level(STATEMENTS);
        if (statements > 0) {
            Brokerage brokerage = application.brokerage();
            for (int n = 0; n < statements; n++) {
                brokerage.quotes(SYMBOL);
            }
        }
    }
}
