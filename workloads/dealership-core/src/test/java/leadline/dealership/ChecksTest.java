package leadline.dealership;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.List;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.Checks;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.Prices;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ChecksTest {
    private static void refused(String beginning, Executable check) {
        DealershipException e = assertThrows(DealershipException.class, check);
        assertEquals(DealershipException.Kind.BAD_REQUEST, e.kind());
        assertTrue(e.getMessage().startsWith(beginning), e.getMessage());
    }

    @Test
    void whatIsSentIsCheckedBeforeTheDatabaseIsAsked() {
        refused("quantity must be 1 to 1000, got 0", () -> Checks.quantity(0));
        refused("model must be", () -> Checks.model("m'1"));
        refused("limit must be 1 to 50, got 51", () -> Checks.limit(51));
        refused("command must be", () -> Checks.command("a b"));
        refused("lines must be a list of 1 to 20, got 0", () -> Checks.lines(null));
        refused(
                "lines must be a list of 1 to 20, got 21",
                () -> Checks.lines(Collections.nCopies(21, new CartLine("M0001", 1))));
        refused(
                "model M0001 is in two lines",
                () -> Checks.lines(List.of(new CartLine("M0001", 1), new CartLine("M0001", 2))));
        refused("part must be", () -> Checks.parts(List.of(new PartLine(null, 1))));
        assertEquals("", Checks.place(""));
    }

    @Test
    void customersPayATenthMore() {
        assertEquals(1_100_00, Prices.retail(1_000_00));
    }
}
