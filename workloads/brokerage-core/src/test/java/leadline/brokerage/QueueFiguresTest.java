package leadline.brokerage;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Outcome;
import leadline.brokerage.domain.QueueFigures;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.SellCommand;
import leadline.brokerage.domain.Side;
import org.junit.jupiter.api.Test;

class QueueFiguresTest {
    private static QueuedOrder order(long acceptedAt) {
        return new QueuedOrder(1, new BuyCommand("S00001", 1, null, "name"), null, acceptedAt);
    }

    @Test
    void countsEveryOutcomeAndTimesOnlyFirstSettlements() {
        QueueFigures figures = new QueueFigures();
        long before = QueueFigures.now();
        figures.accepted();
        figures.settled(order(7), Outcome.FILLED);
        figures.settled(order(7), Outcome.REPEATED);
        figures.settled(order(8), Outcome.DEAD);
        assertEquals(1, figures.acceptedCount());
        assertEquals(3, figures.settledCount());
        assertEquals(1, figures.count(Outcome.REPEATED));
        assertEquals(0, figures.count(Outcome.REJECTED));
        long[] times = figures.times();
        assertArrayEquals(new long[] {7, 8}, new long[] {times[0], times[2]});
        assertEquals(4, times.length);
        assertTrue(times[1] >= before && times[3] >= times[1]);
    }

    @Test
    void keepsMoreTimesThanItBeganWith() {
        QueueFigures figures = new QueueFigures();
        int many = 10_000;
        for (int i = 0; i < many; i++) {
            figures.settled(order(i), Outcome.FILLED);
        }
        long[] times = figures.times();
        assertEquals(2 * many, times.length);
        assertEquals(many - 1, times[2 * many - 2]);
    }

    @Test
    void anOrderIsNamedByItsOnlyCommand() {
        assertEquals(Side.BUY, order(1).side());
        QueuedOrder sale = new QueuedOrder(1, null, new SellCommand(5L, null, null, "sale"), 1);
        assertEquals(Side.SELL, sale.side());
        assertEquals("sale", sale.command());
    }
}
