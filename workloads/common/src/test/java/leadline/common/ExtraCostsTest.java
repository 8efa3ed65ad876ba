package leadline.common;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.http.HttpServletRequest;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ExtraCostsTest {
    private int lookUps;
    private int scans;

    @AfterEach
    void unset() {
        for (String name : ExtraCosts.levels(null).keySet()) {
            System.clearProperty(ExtraCosts.property("shop", name));
        }
    }

    @Test
    void areThereOnlyWhereAskedFor() {
        assertNull(configured());
        System.setProperty("shop.extra_wait", "1500");
        assertEquals(
                Map.of(
                        "extra_cpu",
                        0,
                        "extra_wait",
                        1500,
                        "extra_lock",
                        0,
                        "extra_allocation",
                        0,
                        "extra_reads",
                        0,
                        "extra_scans",
                        0,
                        "extra_statements",
                        0),
                ExtraCosts.levels(configured()));
    }

    @Test
    void sayWhatTheyTake() {
        System.setProperty("shop.extra_cpu", "1s");
        IllegalStateException failure = assertThrows(IllegalStateException.class, () -> configured());
        assertEquals(
                "the system property shop.extra_cpu is \"1s\"; it must be 0 to 1000000, whole", failure.getMessage());
    }

    @Test
    void aRequestBurnsAndWaitsAsLongAsAsked() throws Exception {
        System.setProperty("shop.extra_cpu", "3000");
        System.setProperty("shop.extra_wait", "2000");
        ExtraCosts costs = configured();
        int[] passed = new int[1];
        long cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long began = System.nanoTime();
        costs.doFilter(page(), null, (request, response) -> passed[0]++);
        assertTrue(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpu >= 3_000_000);
        assertTrue(System.nanoTime() - began >= 5_000_000);
        assertEquals(1, passed[0]);
    }

    @Test
    void aRequestAllocatesReadsAndMakesStatementsAsOftenAsAsked() throws Exception {
        System.setProperty("shop.extra_allocation", "4096");
        System.setProperty("shop.extra_reads", "2");
        System.setProperty("shop.extra_scans", "3");
        System.setProperty("shop.extra_statements", "5");
        ExtraCosts costs = configured();
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long before = threads.getCurrentThreadAllocatedBytes();
        costs.doFilter(page(), null, (request, response) -> {});
        assertTrue(threads.getCurrentThreadAllocatedBytes() - before >= 4096 * 1024);
        assertEquals("5 3", lookUps + " " + scans);
    }

    private ExtraCosts configured() {
        return ExtraCosts.configured("shop", () -> lookUps++, () -> scans++, (response, status, value) -> {});
    }

    private static HttpServletRequest page() {
        return (HttpServletRequest) Proxy.newProxyInstance(
                ExtraCostsTest.class.getClassLoader(),
                new Class<?>[] {HttpServletRequest.class},
                (proxy, method, arguments) -> method.getName().equals("getContextPath") ? "/shop" : "/shop/home");
    }
}
