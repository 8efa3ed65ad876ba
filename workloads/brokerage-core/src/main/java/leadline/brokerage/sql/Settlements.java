package leadline.brokerage.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Outcome;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Settlement;
import leadline.common.Rows;

/**
 * Queued orders on a connection whose transaction somebody else ends. The outcome is written in the transaction of its
 * effect under the key of account and command, so that a message delivered twice has one effect.
 */
public final class Settlements {
    private Settlements() {}

    public static Settlement settle(Connection c, QueuedOrder queued) throws SQLException {
        if (settled(c, queued)) {
            return new Settlement(Outcome.REPEATED, null);
        }
        Order order;
        try {
            order = queued.buy() == null
                    ? Changes.sell(c, queued.account(), queued.sell())
                    : Changes.buy(c, queued.account(), queued.buy());
        } catch (BrokerageException refusal) {
            // Refused before anything was written.
            return write(c, queued, new Settlement(Outcome.REJECTED, null));
        }
        return write(
                c,
                queued,
                new Settlement(
                        Outcome.FILLED,
                        Queries.quotes(c, List.of(order.symbol())).get(0)));
    }

    public static Settlement giveUp(Connection c, QueuedOrder queued) throws SQLException {
        return settled(c, queued)
                ? new Settlement(Outcome.REPEATED, null)
                : write(c, queued, new Settlement(Outcome.DEAD, null));
    }

    private static boolean settled(Connection c, QueuedOrder queued) throws SQLException {
        return Rows.first(c, Sql.SETTLED, row -> row.getString(1), queued.account(), queued.command()) != null;
    }

    private static Settlement write(Connection c, QueuedOrder queued, Settlement settlement) throws SQLException {
        Rows.update(
                c,
                Sql.INSERT_SETTLED,
                queued.account(),
                queued.command(),
                queued.side().name(),
                settlement.outcome().name());
        return settlement;
    }
}
