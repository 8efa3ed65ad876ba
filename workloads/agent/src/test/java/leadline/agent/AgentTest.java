package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
final class AgentTest {
    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();

    @TempDir
    Path directory;

    private ObjectName pool;
    private ObjectName catalina;

    /** A pool as Commons DBCP 2 shows it. */
    public interface PoolMBean {
        int getNumActive();

        int getNumIdle();

        int getMaxTotal();

        String getUserPassword();

        void restock();
    }

    static final class Pool implements PoolMBean {
        private int most = 7;

        @Override
        public int getNumActive() {
            return 3;
        }

        @Override
        public int getNumIdle() {
            return 2;
        }

        @Override
        public int getMaxTotal() {
            return most;
        }

        @Override
        public String getUserPassword() {
            return "not for an answer";
        }

        @Override
        public void restock() {
            most++;
        }
    }

    private Answer answerer() {
        Osgi none = new Osgi(null);
        return new Answer(server, new Configurations(none), new SpringBeans(none::loaded));
    }

    @BeforeEach
    void register() throws Exception {
        pool = new ObjectName("Catalina:type=DataSource,connectionpool=connections,name=\"jdbc/x\"");
        catalina = new ObjectName("Catalina:type=Server");
        server.registerMBean(new Pool(), pool);
        server.registerMBean(new Pool(), catalina);
    }

    @AfterEach
    void unregister() throws Exception {
        server.unregisterMBean(pool);
        server.unregisterMBean(catalina);
    }

    @Test
    void samplesUntilItsOptionsFileIsGone() throws Exception {
        Path log = Files.createFile(directory.resolve("compilations.log"));
        Path control =
                Files.writeString(directory.resolve("agent.properties"), "interval_ms=10\ncompilations=" + log + "\n");
        Path file = directory.resolve("agent.csv");
        Sampler.start(control, file, Options.read(control), server, new Osgi(null));
        waitFor(file, "agent.sample_us");
        List<String> rows = Files.readAllLines(file);
        assertTrue(rows.stream().anyMatch(row -> row.endsWith(",pool.in_use,jdbc/x,3")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.endsWith(",pool.size,jdbc/x,5")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.endsWith(",agent.pools,tomcat,1")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.contains(",heap.used,")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.contains(",jit.queue,server,")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.contains(",jit.deoptimised,server,")), rows.toString());
        assertTrue(rows.stream().anyMatch(row -> row.contains(",jit.code_share,Code")), rows.toString());
        Files.delete(control);
        while (Thread.getAllStackTraces().keySet().stream()
                .anyMatch(thread -> thread.getName().equals("leadline-agent"))) {
            Thread.sleep(5);
        }
    }

    @Test
    void invokesBeforeItReads() throws Exception {
        Path file = Files.writeString(
                directory.resolve("ask.properties"),
                "invoke.0=Catalina:type=Server|restock\ninvoke.1=Catalina:type=Server|none\nbean.0=Catalina:type=Server|MaxTotal\n");
        Map<String, Object> answer = answerer().collect(Options.read(file));
        assertEquals(Map.of("MaxTotal", 8), ((Map<?, ?>) answer.get("beans")).get(catalina.getCanonicalName()));
        assertTrue(((Map<?, ?>) answer.get("errors")).containsKey("Catalina:type=Server|none"));
    }

    @Test
    void answersFlagsAndTheAttributesAskedFor() throws Exception {
        Path file = Files.writeString(
                directory.resolve("ask.properties"),
                "flags=MaxHeapSize,NoSuchFlag\nbean.0=Catalina:type=DataSource,*|MaxTotal,NoSuchAttribute\nbean.1=no name\n");
        Map<String, Object> answer = answerer().collect(Options.read(file));
        Map<?, ?> flags = (Map<?, ?>) answer.get("flags");
        assertEquals(
                Runtime.getRuntime().maxMemory() > 0,
                Long.parseLong(flags.get("MaxHeapSize").toString()) > 0);
        assertFalse(flags.containsKey("NoSuchFlag"));
        Map<?, ?> beans = (Map<?, ?>) answer.get("beans");
        assertEquals(Map.of("MaxTotal", 7), beans.get(pool.getCanonicalName()));
        assertTrue(((Map<?, ?>) answer.get("errors")).containsKey("no name"));
        Path out = directory.resolve("answer.json");
        Answer.write(out, answer);
        assertTrue(Files.readString(out).startsWith("{\"refused\":[],\"flags\":{\"MaxHeapSize\":\""));
    }

    @Test
    void changesAreMadeBeforeTheAnswerAndTheFirstThatIsRefusedIsTold() throws Exception {
        String flag = "HeapDumpOnOutOfMemoryError";
        String verbose = "java.lang:type=Memory|Verbose";
        Path file = Files.writeString(
                directory.resolve("ask.properties"),
                "flag.0=" + flag + "=true\nset.0=" + verbose + "|true\nset.1=java.lang:type=None|Verbose|true\n"
                        + "set.2=" + verbose + "|false\nflags=" + flag + "\nbean.0=" + verbose + "\n");
        boolean before = ManagementFactory.getMemoryMXBean().isVerbose();
        try {
            Map<String, Object> answer = answerer().collect(Options.read(file));
            assertEquals(Map.of(flag, "true"), answer.get("flags"));
            assertEquals(Map.of("java.lang:type=Memory", Map.of("Verbose", true)), answer.get("beans"));
            String refused = ((List<?>) answer.get("refused")).get(0).toString();
            assertTrue(refused.startsWith("java.lang:type=None|Verbose|true: "), refused);
        } finally {
            ManagementFactory.getMemoryMXBean().setVerbose(before);
        }
    }

    @Test
    void findsTheLoaderThatHasAClassOfItsOwn() {
        String name = "only.there.Builder";
        ClassLoader there = new ClassLoader(null) {
            @Override
            protected Class<?> findClass(String wanted) throws ClassNotFoundException {
                if (wanted.equals(name)) {
                    return Pool.class;
                }
                throw new ClassNotFoundException(wanted);
            }
        };
        Class<?> loaded = Proxy.newProxyInstance(there, new Class<?>[] {Runnable.class}, (self, method, given) -> null)
                .getClass();
        assertEquals(Optional.of(there), Agent.loaderOf(name, String.class, Pool.class, loaded));
        assertEquals(Optional.empty(), Agent.loaderOf(name, String.class, Pool.class));
    }

    private static void waitFor(Path file, String text) throws Exception {
        while (!Files.readString(file).contains(text)) {
            Thread.sleep(5);
        }
    }
}
