package leadline.brokerage.web;

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
    @AfterEach
    void unset() {
        for (String name : ExtraCosts.levels(null).keySet()) {
            System.clearProperty(ExtraCosts.property(name));
        }
    }

    @Test
    void areThereOnlyWhereAskedFor() {
        assertNull(ExtraCosts.configured(null));
        System.setProperty("brokerage.extra_wait", "1500");
        assertEquals(
                Map.of("extra_cpu", 0, "extra_wait", 1500, "extra_lock", 0, "extra_statements", 0),
                ExtraCosts.levels(ExtraCosts.configured(null)));
    }

    @Test
    void sayWhatTheyTake() {
        System.setProperty("brokerage.extra_cpu", "1s");
        IllegalStateException failure = assertThrows(IllegalStateException.class, () -> ExtraCosts.configured(null));
        assertEquals(
                "the system property brokerage.extra_cpu is \"1s\"; it must be 0 to 1000000, whole",
                failure.getMessage());
    }

    @Test
    void aRequestBurnsAndWaitsAsLongAsAsked() throws Exception {
        System.setProperty("brokerage.extra_cpu", "3000");
        System.setProperty("brokerage.extra_wait", "2000");
        ExtraCosts costs = ExtraCosts.configured(null);
        int[] passed = new int[1];
        long cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long began = System.nanoTime();
        costs.doFilter(page(), null, (request, response) -> passed[0]++);
        assertTrue(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - cpu >= 3_000_000);
        assertTrue(System.nanoTime() - began >= 5_000_000);
        assertEquals(1, passed[0]);
    }

    private static HttpServletRequest page() {
        return (HttpServletRequest) Proxy.newProxyInstance(
                ExtraCostsTest.class.getClassLoader(),
                new Class<?>[] {HttpServletRequest.class},
                (proxy, method, arguments) ->
                        method.getName().equals("getContextPath") ? "/brokerage" : "/brokerage/home");
    }
}
