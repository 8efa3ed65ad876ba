package leadline.brokerage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.List;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.Trade;
import leadline.brokerage.sql.Queries;
import leadline.common.Money;
import leadline.common.Passwords;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RulesTest {
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"0|0.00", "5|0.05", "-5|-0.05", "123456|1,234.56", "-100000000|-1,000,000.00", "99999|999.99"})
    void moneyIsWrittenWithGroupsAndTwoDecimals(long cents, String text) {
        assertEquals(text, Money.text(cents));
        assertEquals(cents, Money.parse(text, "amount"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "x", "1.005", "1e30", "NaN", "--1"})
    void moneyRefusesWhatIsNoAmount(String text) {
        BrokerageException e = assertThrows(BrokerageException.class, () -> Checks.money(text, "opening_balance"));
        assertEquals(BrokerageException.Kind.BAD_REQUEST, e.kind());
        assertTrue(e.getMessage().startsWith("opening_balance must be"));
    }

    @Test
    void pricesStayWithinAQuarterOfTheBaseAndMove() {
        for (String symbol : List.of("S00001", "S00777", "ZZ")) {
            long open = PriceRule.price(symbol, 0);
            boolean moved = false;
            for (long n = 0; n < 2_000; n++) {
                long price = PriceRule.price(symbol, n);
                assertTrue(price > 0 && price < 2 * open, symbol + " " + n + ": " + price);
                assertTrue(Math.abs(PriceRule.price(symbol, n + 1) - price) <= open / 100 + 1, "no jumps");
                moved |= price != open;
            }
            assertTrue(moved);
        }
    }

    @Test
    void pricesDependOnSymbolAndCountOnly() {
        assertEquals(PriceRule.price("S00001", 17), PriceRule.price(new String("S00001"), 17));
        assertNotEquals(PriceRule.price("S00001", 17), PriceRule.price("S00002", 17));
    }

    @Test
    void changeIsInBasisPoints() {
        assertEquals(1_000, PriceRule.changeBasisPoints(110, 100));
        assertEquals(-500, PriceRule.changeBasisPoints(95, 100));
    }

    @Test
    void aTradeAddsUpToZero() {
        for (Trade trade : List.of(Trade.buy(7, 1_234, 1_000_000), Trade.sell(7, 1_234))) {
            assertEquals(0, trade.cash() + trade.market() + trade.fee());
            assertEquals(7 * 1_234, Math.abs(trade.market()));
        }
    }

    @Test
    void aPurchaseNeedsItsWholeCost() {
        long cost = 10 * 500 + Trade.FEE;
        assertEquals(-cost, Trade.buy(10, 500, cost).cash());
        BrokerageException e = assertThrows(BrokerageException.class, () -> Trade.buy(10, 500, cost - 1));
        assertEquals(BrokerageException.Kind.CONFLICT, e.kind());
    }

    @Test
    void aQuoteMustHaveBeenThere() {
        assertEquals(9, Trade.quoteNumber("S00001", null, 9));
        assertEquals(0, Trade.quoteNumber("S00001", 0L, 9));
        assertEquals(9, Trade.quoteNumber("S00001", 9L, 9));
        for (long quote : new long[] {-1, 10}) {
            assertThrows(BrokerageException.class, () -> Trade.quoteNumber("S00001", quote, 9));
        }
    }

    @Test
    void passwordsAreSaltedAndMatchOnlyThemselves() {
        String stored = Passwords.hash("secret");
        assertNotEquals(stored, Passwords.hash("secret"));
        assertTrue(Passwords.matches("secret", stored));
        assertFalse(Passwords.matches("Secret", stored));
        assertFalse(stored.contains("secret"));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, -1, 10_001})
    void quantitiesHaveLimits(int quantity) {
        assertThrows(BrokerageException.class, () -> Checks.quantity(quantity));
    }

    @Test
    void registrationsAreChecked() {
        Profile profile = new Profile("A", "B", "c@d", "1");
        Checks.registration(new Registration("new-user", "secret", profile, 0));
        for (Registration wrong : List.of(
                new Registration("<b>", "secret", profile, 0),
                new Registration(null, "secret", profile, 0),
                new Registration("new-user", "abc", profile, 0),
                new Registration("new-user", "secret", new Profile("", "B", "c@d", "1"), 0),
                new Registration("new-user", "secret", new Profile("A", "B", "c", "1"), 0),
                new Registration("new-user", "secret", new Profile("A", "B", "c@d", "x".repeat(31)), 0),
                new Registration("new-user", "secret", profile, -1))) {
            assertThrows(BrokerageException.class, () -> Checks.registration(wrong), wrong::toString);
        }
    }

    @Test
    void listsOfSymbolsComeInFewLengths() {
        assertEquals(List.of("A", "B", "C", "C", "C"), Queries.padded(List.of("A", "B", "C")));
        assertEquals(20, Queries.padded(Collections.nCopies(11, "A")).size());
        assertThrows(BrokerageException.class, () -> Checks.symbols(Collections.nCopies(21, "A")));
        assertThrows(BrokerageException.class, () -> Checks.symbols(List.of("s1")));
    }
}
