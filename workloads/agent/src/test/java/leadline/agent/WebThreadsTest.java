package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Web servers as Spring Boot wraps them; the names of the fakes begin as those of the wrappers. */
final class WebThreadsTest {
    public static final class TomcatFake {
        private final ThreadPoolExecutor executor =
                new ThreadPoolExecutor(2, 8, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
        private int most = 200;

        public TomcatFake getTomcat() {
            return this;
        }

        public TomcatFake getConnector() {
            return this;
        }

        public TomcatFake getProtocolHandler() {
            return this;
        }

        public ThreadPoolExecutor getExecutor() {
            return executor;
        }

        public int getMaxThreads() {
            return most;
        }

        public void setMaxThreads(int most) {
            this.most = most;
        }

        public long getConnectionCount() {
            return 5;
        }
    }

    public static final class JettyFake {
        public JettyFake getServer() {
            return this;
        }

        public JettyFake getThreadPool() {
            return this;
        }

        public int getThreads() {
            return 12;
        }

        public int getBusyThreads() {
            return 7;
        }

        public int getMaxThreads() {
            return 200;
        }

        public int getQueueSize() {
            return 3;
        }
    }

    public static final class UndertowFake {
        @SuppressWarnings("unused")
        private final UndertowFake undertow = this;

        public UndertowFake getWorker() {
            return this;
        }

        public UndertowFake getMXBean() {
            return this;
        }

        public int getBusyWorkerThreadCount() {
            return 6;
        }

        public int getWorkerPoolSize() {
            return 16;
        }

        public int getMaxWorkerPoolSize() {
            return 64;
        }

        public int getWorkerQueueSize() {
            return 1;
        }
    }

    private static Map<String, Double> sampled(Object server, Path directory) throws Exception {
        return Samples.of(out -> new WebThreads(server).sample(out), directory);
    }

    @Test
    void tomcatsThreadsAreReadChangedAndSampled(@TempDir Path directory) throws Exception {
        TomcatFake tomcat = new TomcatFake();
        WebThreads threads = new WebThreads(tomcat);
        threads.change("server.tomcat.threads.max", "20");
        assertEquals(20, threads.read("server.tomcat.threads.max"));
        assertEquals(
                Map.of(
                        "threads.active tomcat", 0.0,
                        "threads.size tomcat", 0.0,
                        "threads.max tomcat", 20.0,
                        "threads.queue tomcat", 0.0,
                        "http.connections tomcat", 5.0),
                sampled(tomcat, directory));
    }

    @Test
    void jettysAndUndertowsThreadsAreSampled(@TempDir Path directory) throws Exception {
        assertEquals(
                Map.of(
                        "threads.active jetty", 7.0,
                        "threads.size jetty", 12.0,
                        "threads.max jetty", 200.0,
                        "threads.queue jetty", 3.0),
                sampled(new JettyFake(), directory));
        assertEquals(
                Map.of(
                        "threads.active undertow", 6.0,
                        "threads.size undertow", 16.0,
                        "threads.max undertow", 64.0,
                        "threads.queue undertow", 1.0),
                sampled(new UndertowFake(), directory));
    }

    @Test
    void otherPropertiesAreNotTheWebServers() {
        assertFalse(WebThreads.known("server.tomcat.basedir"));
        assertFalse(WebThreads.known("server.undertow.threads.worker"));
    }
}
