package leadline.dealership.messaging;

import jakarta.annotation.Resource;
import jakarta.ejb.Local;
import jakarta.ejb.Stateless;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.Queue;
import java.util.List;
import leadline.common.Messages;
import leadline.dealership.domain.DeliveryQueue;
import leadline.dealership.domain.PartLine;

/** Sends each delivery in a transaction of its own, which ends before the supplier is told that it is accepted. */
@Stateless(name = "JmsDeliveryQueue")
@Local(DeliveryQueue.class)
public class JmsDeliveryQueue implements DeliveryQueue {
    @Resource(name = "jms/dealershipConnections")
    private ConnectionFactory connections;

    @Resource(name = "jms/dealershipDeliveries")
    private Queue deliveries;

    @Override
    public void put(long purchaseOrder, List<PartLine> lines) {
        Messages.send(connections, deliveries, context -> DeliveryMessages.of(context, purchaseOrder, lines));
    }
}
