package leadline.agent;

import java.io.IOException;
import java.util.Map;

/** The threads of the web server in a Spring Boot application (Tomcat, Jetty, Undertow), by reflection. */
final class WebThreads {
    private static final String TOMCAT = "server.tomcat.";
    private static final String JETTY = "server.jetty.";
    private static final Map<String, String> OF_TOMCAT = Map.of(
            "threads.max", "max-threads",
            "threads.min-spare", "min-spare-threads",
            "max-connections", "max-connections",
            "accept-count", "accept-count");
    private static final Map<String, String> OF_JETTY =
            Map.of("threads.max", "max-threads", "threads.min", "min-threads");

    private final Object server;

    /** {@code server}: Boot's web server: TomcatWebServer, JettyWebServer or UndertowWebServer. */
    WebThreads(Object server) {
        this.server = server;
    }

    /** Whether the level of this property is the web server's to tell. */
    static boolean known(String property) {
        return name(property) != null;
    }

    Object read(String property) throws ReflectiveOperationException {
        return Values.plain(Reflection.get(holder(property), name(property)));
    }

    void change(String property, String value) throws ReflectiveOperationException {
        Reflection.set(holder(property), name(property), value);
    }

    private static String name(String property) {
        return property.startsWith(TOMCAT)
                ? OF_TOMCAT.get(property.substring(TOMCAT.length()))
                : property.startsWith(JETTY) ? OF_JETTY.get(property.substring(JETTY.length())) : null;
    }

    private Object holder(String property) throws ReflectiveOperationException {
        return property.startsWith(TOMCAT)
                ? handler()
                : Reflection.get(Reflection.get(server, "server"), "thread-pool");
    }

    private Object handler() throws ReflectiveOperationException {
        return Reflection.get(Reflection.get(Reflection.get(server, "tomcat"), "connector"), "protocol-handler");
    }

    void sample(SampleFile out) throws ReflectiveOperationException, IOException {
        String kind = server.getClass().getSimpleName();
        if (kind.startsWith("Tomcat")) {
            Object handler = handler();
            Object pool = Reflection.get(handler, "executor");
            Object queue = pool == null ? null : queue(pool);
            add(out, "tomcat", pool, "active-count", "pool-size", handler, "max-threads");
            out.add("threads.queue", "tomcat", queue == null ? Double.NaN : Reflection.number(queue, "size"));
            out.add("http.connections", "tomcat", Reflection.number(handler, "connection-count"));
        } else if (kind.startsWith("Jetty")) {
            Object pool = Reflection.get(Reflection.get(server, "server"), "thread-pool");
            add(out, "jetty", pool, "busy-threads", "threads", pool, "max-threads");
            out.add("threads.queue", "jetty", Reflection.number(pool, "queue-size"));
        } else if (kind.startsWith("Undertow")) {
            Object undertow = Osgi.field(server, "undertow");
            Object worker = Reflection.get(Reflection.get(undertow, "worker"), "MXBean");
            add(
                    out,
                    "undertow",
                    worker,
                    "busy-worker-thread-count",
                    "worker-pool-size",
                    worker,
                    "max-worker-pool-size");
            out.add("threads.queue", "undertow", Reflection.number(worker, "worker-queue-size"));
        }
    }

    private static Object queue(Object pool) {
        try {
            return Reflection.get(pool, "queue");
        } catch (ReflectiveOperationException virtual) {
            return null;
        }
    }

    private static void add(
            SampleFile out, String subject, Object pool, String active, String size, Object holder, String most)
            throws IOException {
        if (pool != null) {
            out.add("threads.active", subject, Reflection.number(pool, active));
            out.add("threads.size", subject, Reflection.number(pool, size));
        }
        out.add("threads.max", subject, Reflection.number(holder, most));
    }
}
