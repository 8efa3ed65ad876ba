package leadline.brokerage.web;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class RetentionTest {
    @AfterEach
    void unset() {
        System.clearProperty(Retention.PROPERTY);
    }

    @Test
    void isOffUnlessAskedFor() {
        assertEquals(0, Retention.configuredBytes());
        System.setProperty(Retention.PROPERTY, "4096");
        assertEquals(4096, Retention.configuredBytes());
    }

    @Test
    void saysWhatItTakes() {
        for (String word : new String[] {"much", "-1", "1048577"}) {
            System.setProperty(Retention.PROPERTY, word);
            IllegalStateException failure = assertThrows(IllegalStateException.class, Retention::configuredBytes);
            assertEquals(
                    "the system property brokerage.leak is \"" + word
                            + "\"; it must be 0 to 1048576 whole bytes a request",
                    failure.getMessage());
        }
    }

    @Test
    void everyRequestLeavesSomethingBehind() throws Exception {
        Retention retention = new Retention(100);
        int[] passed = new int[1];
        for (int n = 0; n < 3; n++) {
            retention.doFilter(null, null, (request, response) -> passed[0]++);
        }
        assertEquals(3, passed[0]);
        assertEquals(3, retention.held());
    }
}
