package leadline.dealership.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import leadline.common.DriverCount;
import leadline.dealership.data.Scale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AuditsTest {
    @ParameterizedTest
    @CsvSource({"9,false", "10,true", "12,true", "13,false"})
    void rowsLieBetweenRightResponsesAndAllRequests(long gained, boolean passes) {
        assertEquals(
                passes, Audits.delta("sell", new DriverCount(10, 2), gained).passed());
    }

    @ParameterizedTest
    @CsvSource({"0,0,true", "1040,10000,true", "1180,10000,false", "820,10000,false", "2,8,true"})
    void aShareMayDifferByChanceAndAFewPercent(long part, long all, boolean passes) {
        assertEquals(passes, Audits.share("large", 0.1, part, all).passed());
    }

    private static Load load(double rate, double seconds, double waiting, long browses, long schedules) {
        return new Load(rate, 10, 0.65, seconds, waiting, Map.of("browse", browses, "schedule", schedules));
    }

    /** 100 dealers: 3295 to 3452 transactions in six minutes, less with a slow server, within chance and 5 %. */
    @ParameterizedTest
    @CsvSource({
        "3300,0,true",
        "2950,0,true",
        "2850,0,false",
        "3850,0,true",
        "3900,0,false",
        "1500,50,true",
        "1300,50,false",
        "0,100,true",
        "3900,100,false"
    })
    void dealersAskAsOftenAsTheirCyclesAndAnswersAllow(long asked, double waiting, boolean passes) {
        assertEquals(passes, Audits.dealers(load(10, 360, waiting, asked, 0)).passed());
    }

    @ParameterizedTest
    @CsvSource({"610,true", "520,true", "450,false", "730,true", "800,false"})
    void thePlantPlansAsOftenAsItsCyclesAllow(long asked, boolean passes) {
        assertEquals(passes, Audits.plant(load(1, 1000, 0, 0, asked)).passed());
    }

    @Test
    void aFewSecondsShowLittle() {
        assertTrue(Audits.dealers(load(1, 5, 0, 0, 0)).passed());
        assertTrue(Audits.plant(load(1, 5, 0, 0, 3)).passed());
        assertFalse(Audits.dealers(load(320, 5, 0, 0, 0)).passed());
    }

    @Test
    void theMixNamesEachShare() {
        Map<String, DriverCount> counts = Map.of(
                "browse", new DriverCount(5_000, 0),
                "purchase", new DriverCount(2_200, 50),
                "purchase_large", new DriverCount(250, 0),
                "manage_sell", new DriverCount(1_500, 0),
                "manage_cancel", new DriverCount(900, 100));
        Inputs inputs = new Inputs(Scale.of(10), 1, counts, null, null);
        assertEquals(
                "browse: 5000 of 10000 are 0.5000, expected 0.5000 +- 0.0450; purchase: 2500 of 10000 are 0.2500,"
                        + " expected 0.2500 +- 0.0298; manage: 2500 of 10000 are 0.2500, expected 0.2500 +- 0.0298",
                Audits.mix(inputs).detail());
    }

    /** What the faults do on a real database is tested by tests/stack/test_dealership_faults.py. */
    @Test
    void everyAuditOfTheDataHasAFault() {
        Set<String> planted =
                Faults.all().stream().flatMap(fault -> fault.audits().stream()).collect(Collectors.toSet());
        Set<String> missing = new HashSet<>(Statements.WRONG_ROWS.keySet());
        missing.removeAll(planted);
        assertEquals(Set.of("no-command-has-two-effects"), missing, "the one whose fault needs PostgreSQL");
    }
}
