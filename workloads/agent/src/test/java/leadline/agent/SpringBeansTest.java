package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.annotation.Annotation;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An application as Spring Boot shows it: a shutdown hook with contexts, beans that properties were bound to. */
final class SpringBeansTest {
    @Retention(RetentionPolicy.RUNTIME)
    public @interface ConfigurationProperties {
        String value() default "";

        String prefix() default "";
    }

    public static final class Application {
        private static final Hook shutdownHook = new Hook();
    }

    static final class Hook {
        private final Set<Object> contexts = new HashSet<>();
    }

    public static final class Pool {
        private int size = 10;
        private int evictions;

        public int getMaximumPoolSize() {
            return size;
        }

        public void setMaximumPoolSize(int size) {
            this.size = size;
        }

        public Pool getHikariPoolMXBean() {
            return this;
        }

        public String getPoolName() {
            return "shop";
        }

        public int getActiveConnections() {
            return 3;
        }

        public int getIdleConnections() {
            return 2;
        }

        public int getTotalConnections() {
            return 5;
        }

        public int getThreadsAwaitingConnection() {
            return 4;
        }

        public void softEvictConnections() {
            evictions++;
        }
    }

    @ConfigurationProperties(prefix = "server")
    public static class Server {
        public Server getTomcat() {
            return this;
        }

        public boolean isEnabled() {
            return true;
        }

        public Duration getKeepAliveTimeout() {
            return Duration.ofMillis(250);
        }
    }

    /** As of a class that was made for a bean, which inherits no annotation. */
    public static final class Proxied extends Server {}

    public static final class Context {
        private final Pool pool;

        Context(Pool pool) {
            this.pool = pool;
        }

        public Map<String, Object> getBeansOfType(Class<?> type) {
            return Map.of("pool", pool);
        }

        public Map<String, Object> getBeansWithAnnotation(Class<? extends Annotation> type) {
            return Map.of("server", new Proxied());
        }

        public Context getEnvironment() {
            return this;
        }

        public String getProperty(String name) {
            return name.equals("shop.packing") ? "5" : null;
        }
    }

    private final Pool pool = new Pool();
    private final SpringBeans beans = new SpringBeans(
            name -> switch (name.substring(name.lastIndexOf('.') + 1)) {
                case "SpringApplication" -> Application.class;
                case "HikariDataSource" -> Pool.class;
                default -> ConfigurationProperties.class;
            },
            ConfigurationProperties.class.getName());

    @BeforeEach
    void start() {
        Application.shutdownHook.contexts.clear();
        Application.shutdownHook.contexts.add(new Context(pool));
    }

    @Test
    void levelsAreThoseOfThePoolOfTheBoundBeansAndOfTheEnvironment() throws ReflectiveOperationException {
        assertEquals(10, beans.read("spring.datasource.hikari.maximum-pool-size"));
        assertEquals(0.25, beans.read("server.tomcat.keep-alive-timeout"));
        assertEquals(true, beans.read("server.enabled"));
        assertEquals("5", beans.read("shop.packing"));
        assertThrows(NoSuchFieldException.class, () -> beans.read("server.tomcat.threads"));
    }

    @Test
    void thePoolChangesWhileItRunsAndLetsGoOfItsConnections() throws ReflectiveOperationException {
        beans.change("spring.datasource.hikari.maximum-pool-size=3");
        assertEquals(3, beans.read("spring.datasource.hikari.maximum-pool-size"));
        assertEquals(1, pool.evictions);
        assertThrows(NoSuchMethodException.class, () -> beans.change("server.enabled=false"));
    }

    @Test
    void thePoolIsSampled(@TempDir Path directory) throws Exception {
        assertEquals(
                Map.of(
                        "pool.in_use shop", 3.0,
                        "pool.free shop", 2.0,
                        "pool.size shop", 5.0,
                        "pool.max shop", 10.0,
                        "pool.waiting shop", 4.0,
                        "agent.pools spring", 1.0),
                Samples.of(new SpringProbe(beans), directory));
    }
}
