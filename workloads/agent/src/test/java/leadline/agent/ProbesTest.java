package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.DynamicMBean;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Probes on MBeans with planted figures. */
final class ProbesTest {
    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    private final List<ObjectName> registered = new ArrayList<>();

    @TempDir
    Path directory;

    /** An MBean whose attributes are a map's. */
    static final class FakeBean implements DynamicMBean {
        final Map<String, Object> values = new HashMap<>();

        @Override
        public Object getAttribute(String name) {
            return values.get(name);
        }

        @Override
        public void setAttribute(Attribute attribute) {
            values.put(attribute.getName(), attribute.getValue());
        }

        @Override
        public AttributeList getAttributes(String[] names) {
            AttributeList found = new AttributeList();
            for (String name : names) {
                if (values.containsKey(name)) {
                    found.add(new Attribute(name, values.get(name)));
                }
            }
            return found;
        }

        @Override
        public AttributeList setAttributes(AttributeList attributes) {
            return attributes;
        }

        @Override
        public Object invoke(String action, Object[] given, String[] signature) {
            return null;
        }

        @Override
        public MBeanInfo getMBeanInfo() {
            return new MBeanInfo(FakeBean.class.getName(), "planted", null, null, null, null);
        }
    }

    @AfterEach
    void unregister() throws Exception {
        for (ObjectName name : registered) {
            if (server.isRegistered(name)) {
                server.unregisterMBean(name);
            }
        }
    }

    private FakeBean bean(String name, Object... pairs) throws Exception {
        FakeBean bean = new FakeBean();
        for (int i = 0; i < pairs.length; i += 2) {
            bean.values.put(pairs[i].toString(), pairs[i + 1]);
        }
        ObjectName object = new ObjectName(name);
        server.registerMBean(bean, object);
        registered.add(object);
        return bean;
    }

    private Map<String, Double> sample(Probe probe) throws Exception {
        return Samples.of(probe, directory);
    }

    @Test
    void countsTheMethodsThatWaitForTheCompiler() {
        String said = "Current compiles: \nC2 CompilerThread0  1296   !   4       a.B::c (497 bytes)\n\n"
                + "C1 compile queue:\nEmpty\n\nC2 compile queue:\n1291       4       a.B::d (19 bytes)\n"
                + "  12  s    4       a.B::e (40 bytes)\n\n";
        assertEquals(2, JvmProbe.waiting(said));
    }

    @Test
    void countsOptimisedCodeThatIsGivenUp() {
        String up = "made not entrant";
        for (String line : List.of(
                " 120       4       java.util.HashMap::putVal (300 bytes)   " + up, // JDK 17
                "  12 % !b  4       a.B::c @ 5 (300 bytes)   " + up,
                " 113       4       java.util.HashMap::putVal (300 bytes)   " + up + ": uncommon trap")) { // JDK 25
            assertTrue(Deoptimisations.isOne(line), line);
        }
        for (String line : List.of(
                "  64       3       java.util.HashMap::putVal (300 bytes)   " + up,
                " 120       4       java.util.HashMap::putVal (300 bytes)",
                "  69       4       java.util.HashMap::afterNodeInsertion (1 bytes)   " + up + ": not used")) {
            assertFalse(Deoptimisations.isOne(line), line);
        }
    }

    @Test
    void growthNeverFalls() {
        Growth growth = new Growth();
        growth.add("a", 5);
        growth.add("b", 2);
        growth.add("a", 9);
        assertEquals(11, growth.total());
        growth.keep(Set.of("b"));
        growth.add("a", 3); // another one under the same name
        growth.add("b", 1); // started anew
        growth.add("b", Double.NaN);
        assertEquals(15, growth.total());
    }

    @Test
    void tomcatsStatementsAreSummedOverConnections() throws Exception {
        String source =
                "Catalina:type=DataSource,class=javax.sql.DataSource,name=\"jdbc/x\",connectionpool=connections";
        for (int connection = 1; connection <= 2; connection++) {
            bean(
                    source + ",connection=" + connection + ",statementpool=statements",
                    "BorrowedCount",
                    100L,
                    "CreatedCount",
                    40L,
                    "DestroyedCount",
                    30L,
                    "NumIdle",
                    9,
                    "NumActive",
                    1);
        }
        TomcatProbe probe = new TomcatProbe(server);
        Map<String, Double> first = sample(probe);
        assertEquals(200, first.get("statements.uses jdbc/x"));
        assertEquals(80, first.get("statements.prepared jdbc/x"));
        assertEquals(60, first.get("statements.discarded jdbc/x"));
        assertEquals(20, first.get("statements.kept jdbc/x"));
        server.unregisterMBean(registered.get(0)); // its connection was closed
        for (int i = 0; i < 6; i++) {
            sample(probe);
        }
        Map<String, Double> last = sample(probe);
        assertEquals(60, last.get("statements.discarded jdbc/x"), "what it had counted is kept");
        assertEquals(10, last.get("statements.kept jdbc/x"));
    }

    @Test
    void wildFlysWaitersFollowFromTheTimeTheyWaited() throws Exception {
        String source = "jboss.as:subsystem=datasources,data-source=brokerage";
        bean(source, "maxPoolSize", 7, "jndiName", "java:/jdbc/x", "statisticsEnabled", true);
        FakeBean pool = bean(
                source + ",statistics=pool",
                "ActiveCount",
                5,
                "InUseCount",
                3,
                "WaitCount",
                10,
                "TotalBlockingTime",
                1000L,
                "CreatedCount",
                5);
        bean(
                source + ",statistics=jdbc",
                "PreparedStatementCacheAccessCount",
                90L,
                "PreparedStatementCacheAddCount",
                20L,
                "PreparedStatementCacheDeleteCount",
                15L,
                "PreparedStatementCacheCurrentSize",
                5);
        bean("jboss.as:subsystem=io,worker=default", "busyTaskThreadCount", 4, "maxPoolSize", 16, "queueSize", 2);
        WildFlyProbe probe = new WildFlyProbe(server);
        Map<String, Double> first = sample(probe);
        assertEquals(1, first.get("agent.pools wildfly"));
        assertEquals(3, first.get("pool.in_use jdbc/x"));
        assertEquals(2, first.get("pool.free jdbc/x"));
        assertEquals(7, first.get("pool.max jdbc/x"));
        assertFalse(first.containsKey("pool.waiting jdbc/x"), "no interval yet");
        assertEquals(15, first.get("statements.discarded jdbc/x"));
        assertEquals(4, first.get("threads.active default"));
        assertEquals(16, first.get("threads.max default"));
        pool.values.put("WaitCount", 14);
        pool.values.put("TotalBlockingTime", 1100L);
        Thread.sleep(20);
        Map<String, Double> second = sample(probe);
        assertEquals(25, second.get("pool.wait_ms_mean jdbc/x"));
        // 100 ms of waiting within at least 20 ms
        assertTrue(second.get("pool.waiting jdbc/x") > 0, second.toString());
        assertTrue(second.get("pool.waiting jdbc/x") <= 5, second.toString());
    }

    @Test
    void wildFlyWithoutStatisticsTellsOfNoPool() throws Exception {
        String source = "jboss.as:subsystem=datasources,data-source=off";
        bean(source, "maxPoolSize", 7, "jndiName", "java:/jdbc/x", "statisticsEnabled", false);
        bean(source + ",statistics=pool", "ActiveCount", 0, "InUseCount", 0);
        Map<String, Double> found = sample(new WildFlyProbe(server));
        assertEquals(0, found.get("agent.pools wildfly"));
        assertFalse(found.keySet().stream().anyMatch(key -> key.startsWith("pool.")), found.toString());
    }

    @Test
    void tomEEsPoolsWithoutTheirConnectionsAndTheEmptyOnes() throws Exception {
        String source = "openejb.management:ObjectType=datasources,DataSource=jdbc_x";
        bean(source, "Active", 3, "Idle", 1, "Size", 4, "MaxActive", 7, "WaitCount", 2, "BorrowedCount", 50L);
        bean(source + ",connections=PooledConnection[0]");
        bean(source + "NonJta", "Active", 0, "Idle", 0, "Size", 0, "MaxActive", 2);
        Map<String, Double> found = sample(new TomEEProbe(server));
        assertEquals(1, found.get("agent.pools tomee"));
        assertEquals(3, found.get("pool.in_use jdbc/x"));
        assertEquals(7, found.get("pool.max jdbc/x"));
        assertEquals(2, found.get("pool.waiting jdbc/x"));
        assertFalse(found.keySet().stream().anyMatch(key -> key.endsWith("NonJta")), found.toString());
    }

    /** As Open Liberty's pooled connections look from outside. */
    public static final class FakeManager {
        final FakePool _pm = new FakePool();

        public String getJndiName() {
            return "jdbc/x";
        }
    }

    static final class FakePool {
        final java.util.concurrent.locks.Lock mcToMCWMapRead = new java.util.concurrent.locks.ReentrantLock();
        final Map<Object, Object> mcToMCWMap =
                new HashMap<>(Map.of(new FakeConnection(), "1", new FakeConnection(), "2"));
    }

    static class FakeParent {
        final FakeCache statementCache = new FakeCache();
    }

    static final class FakeConnection extends FakeParent {}

    static final class FakeCache {
        final int numDiscards = 8;
        final int numEntries = 5;
    }

    @Test
    void libertysDiscardsAreReadFromItsConnections() throws Exception {
        FakeManager manager = new FakeManager();
        Map<String, Double> found = sample(new LibertyStatementsProbe(() -> List.of(manager)));
        assertEquals(16, found.get("statements.discarded jdbc/x"));
        assertEquals(10, found.get("statements.kept jdbc/x"));
    }

    @Test
    void anotherVersionOfLibertyGivesNoFiguresAndNoError() throws Exception {
        Probe probe = new LibertyStatementsProbe(() -> List.of("something else"));
        assertTrue(sample(probe).isEmpty());
        assertTrue(sample(probe).isEmpty());
    }

    @Test
    void withoutAFrameworkThereAreNoServices() throws Exception {
        assertTrue(new Osgi(null).services("any.Service").isEmpty());
        assertThrows(NoSuchFieldException.class, () -> Osgi.field("text", "noSuchField"));
    }
}
