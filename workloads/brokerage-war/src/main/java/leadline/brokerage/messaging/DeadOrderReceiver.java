package leadline.brokerage.messaging;

import jakarta.annotation.Resource;
import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.transaction.TransactionSynchronizationRegistry;
import leadline.brokerage.domain.OrderDesk;

/** Writes down the orders that the server gave up delivering, so that no accepted order is gone without a trace. */
@MessageDriven(
        name = "DeadOrderReceiver",
        activationConfig = {
            @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Queue"),
            @ActivationConfigProperty(propertyName = "destinationLookup", propertyValue = "jms/brokerageDeadOrders")
        })
public class DeadOrderReceiver implements MessageListener {
    @Resource
    private TransactionSynchronizationRegistry transaction;

    @Override
    public void onMessage(Message message) {
        Receiving.receive(message, transaction, OrderDesk::giveUp);
    }
}
