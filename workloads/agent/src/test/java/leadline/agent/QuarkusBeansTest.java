package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.annotation.Annotation;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An application as Quarkus shows it: a container with data sources, a configuration, an executor. */
final class QuarkusBeansTest {
    public enum FlushMode {
        ALL,
        IDLE
    }

    /** A data source with its configuration, its pool's and the pool itself in one. */
    public static final class FakePool {
        @SuppressWarnings("unused")
        private final FakePool connectionPool = this;

        @SuppressWarnings("unused")
        private final List<FakeConnection> allConnections = List.of(
                new FakeConnection("CHECKED_OUT"),
                new FakeConnection("CHECKED_IN"),
                new FakeConnection("CHECKED_OUT"),
                new FakeConnection("CHECKED_OUT"),
                new FakeConnection("CHECKED_IN"));

        private int size = 20;
        private Duration timeout = Duration.ofSeconds(5);
        private FlushMode flushed;

        public FakePool getConfiguration() {
            return this;
        }

        public FakePool connectionPoolConfiguration() {
            return this;
        }

        public int maxSize() {
            return size;
        }

        public void setMaxSize(int size) {
            this.size = size;
        }

        public Duration acquisitionTimeout() {
            return timeout;
        }

        public void setAcquisitionTimeout(Duration timeout) {
            this.timeout = timeout;
        }

        public void flush(FlushMode mode) {
            flushed = mode;
        }

        public long awaitingCount() {
            return 4;
        }
    }

    record FakeConnection(String state) {}

    public record FakeProxy(Object arc_contextualInstance) {}

    public record FakeHandle(Object get) {}

    public static final class Arc {
        private static FakePool pool = new FakePool();

        public static Arc container() {
            return new Arc();
        }

        public List<FakeHandle> listAll(Class<?> type, Annotation... qualifiers) {
            return List.of(new FakeHandle(new FakeProxy(pool)));
        }
    }

    public static final class ConfigProvider {
        public static ConfigProvider getConfig(ClassLoader loader) {
            return new ConfigProvider();
        }

        public FakeValue getConfigValue(String name) {
            return new FakeValue(name.equals("quarkus.http.io-threads") ? "8" : null);
        }
    }

    public record FakeValue(String value) {
        public String getValue() {
            return value;
        }
    }

    public static final class ExecutorRecorder {
        public static FakeExecutor getCurrent() {
            return new FakeExecutor();
        }
    }

    /** The executor that is handed out, and the one that it hides. */
    public static final class FakeExecutor {
        @SuppressWarnings("unused")
        private final FakeExecutor delegate = this;

        public int getActiveCount() {
            return 1;
        }

        public int getPoolSize() {
            return 2;
        }

        public int getMaximumPoolSize() {
            return 16;
        }

        public int getQueueSize() {
            return 0;
        }
    }

    private final QuarkusBeans quarkus = new QuarkusBeans(name -> switch (name.substring(name.lastIndexOf('.') + 1)) {
        case "Arc" -> Arc.class;
        case "ConfigProvider" -> ConfigProvider.class;
        case "ExecutorRecorder" -> ExecutorRecorder.class;
        default -> FakePool.class;
    });

    @BeforeEach
    void start() {
        Arc.pool = new FakePool();
    }

    @Test
    void levelsAreThoseOfThePoolAndOfTheConfiguration() throws ReflectiveOperationException {
        assertEquals(20, quarkus.read("quarkus.datasource.jdbc.max-size"));
        assertEquals(5.0, quarkus.read("quarkus.datasource.jdbc.acquisition-timeout"));
        assertEquals(16, quarkus.read("quarkus.thread-pool.max-threads"));
        assertEquals("8", quarkus.read("quarkus.http.io-threads"));
        assertThrows(NoSuchFieldException.class, () -> quarkus.read("quarkus.http.port"));
    }

    @Test
    void thePoolChangesWhileItRunsAndLetsGoOfItsConnections() throws ReflectiveOperationException {
        quarkus.change("quarkus.datasource.jdbc.max-size=3");
        quarkus.change("quarkus.datasource.jdbc.acquisition-timeout=250");
        assertEquals(3, quarkus.read("quarkus.datasource.jdbc.max-size"));
        assertEquals(0.25, quarkus.read("quarkus.datasource.jdbc.acquisition-timeout"));
        assertEquals(FlushMode.IDLE, Arc.pool.flushed);
        assertThrows(NoSuchMethodException.class, () -> quarkus.change("quarkus.http.io-threads=3"));
    }

    @Test
    void poolAndWorkersAreSampled(@TempDir Path directory) throws Exception {
        assertEquals(
                Map.of(
                        "pool.in_use agroal", 3.0,
                        "pool.free agroal", 2.0,
                        "pool.size agroal", 5.0,
                        "pool.max agroal", 20.0,
                        "pool.waiting agroal", 4.0,
                        "agent.pools quarkus", 1.0,
                        "threads.active workers", 1.0,
                        "threads.size workers", 2.0,
                        "threads.max workers", 16.0,
                        "threads.queue workers", 0.0),
                Samples.of(new QuarkusProbe(quarkus), directory));
    }
}
