package leadline.brokerage.messaging;

import jakarta.annotation.Resource;
import jakarta.ejb.Local;
import jakarta.ejb.Stateless;
import jakarta.ejb.TransactionAttribute;
import jakarta.ejb.TransactionAttributeType;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import java.util.Enumeration;
import leadline.brokerage.domain.OrderQueue;
import leadline.brokerage.domain.QueuedOrder;
import leadline.common.Messages;
import leadline.common.MessagingFailure;

/** Sends each order in a transaction of its own, which ends before the page says that the order is accepted. */
@Stateless(name = "JmsOrderQueue")
@Local(OrderQueue.class)
public class JmsOrderQueue implements OrderQueue {
    @Resource(name = "jms/brokerageConnections")
    private ConnectionFactory connections;

    @Resource(name = "jms/brokerageOrders")
    private Queue orders;

    @Override
    public void put(QueuedOrder order) {
        Messages.send(connections, orders, context -> OrderMessages.of(context, order));
    }

    @Override
    @TransactionAttribute(TransactionAttributeType.NOT_SUPPORTED)
    public int waiting() {
        try (JMSContext context = connections.createContext();
                QueueBrowser browser = context.createBrowser(orders)) {
            int found = 0;
            for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements(); each.nextElement()) {
                found++;
            }
            return found;
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }
}
