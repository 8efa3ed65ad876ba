package leadline.brokerage.check;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import leadline.common.DriverCount;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AuditsTest {
    @ParameterizedTest
    @CsvSource({"9,false", "10,true", "12,true", "13,false"})
    void rowsLieBetweenRightAnswersAndAllRequests(long gained, boolean passes) {
        Map<String, DriverCount> counts = Map.of("buy", new DriverCount(10, 2));
        assertEquals(passes, Audits.delta("buy", counts, gained).passed());
    }

    @ParameterizedTest
    @CsvSource({"0,true", "1,false"})
    void aTransactionThatWasNotCountedWasNotMade(long gained, boolean passes) {
        assertEquals(passes, Audits.delta("sell", Map.of(), gained).passed());
    }
}
