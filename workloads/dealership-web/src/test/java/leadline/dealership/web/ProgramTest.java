package leadline.dealership.web;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.List;
import javax.sql.DataSource;
import leadline.common.ModeUnavailable;
import org.junit.jupiter.api.Test;

class ProgramTest {
    private static final DataSource FAKE = (DataSource) Proxy.newProxyInstance(
            ProgramTest.class.getClassLoader(), new Class<?>[] {DataSource.class}, (proxy, method, arguments) -> null);

    @Test
    void whatOnlyAnArchiveCanDoIsRefused() {
        for (List<String> asked : List.of(
                List.of("dealership.mode", "session", "direct"),
                List.of("dealership.calls", "remote", "local"),
                List.of("dealership.deliveries", "queue", "direct"))) {
            System.setProperty(asked.get(0), asked.get(1));
            try {
                IllegalStateException e = assertThrows(IllegalStateException.class, () -> new Program(FAKE));
                assertEquals(
                        "the system property " + asked.get(0) + " is \"" + asked.get(1)
                                + "\"; a program without enterprise beans has " + asked.get(2) + " only",
                        e.getMessage());
            } finally {
                System.clearProperty(asked.get(0));
            }
        }
    }

    @Test
    void itSaysWhatItHas() {
        Program program = new Program(FAKE);
        assertEquals(
                List.of("direct", "local", "direct"), List.of(program.mode(), program.calls(), program.deliveries()));
        assertThrows(ModeUnavailable.class, program::queue);
    }
}
