package leadline.brokerage.messaging;

import jakarta.annotation.Resource;
import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.jms.Topic;
import jakarta.transaction.TransactionSynchronizationRegistry;
import leadline.brokerage.domain.OrderDesk;
import leadline.brokerage.domain.QueueFigures;
import leadline.brokerage.domain.Quote;
import leadline.common.Messages;

/**
 * Settles orders. Receiving, settling and publishing the new quote are one transaction of the container; what fails is
 * delivered again.
 */
@MessageDriven(
        name = "OrderReceiver",
        activationConfig = {
            @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Queue"),
            @ActivationConfigProperty(propertyName = "destinationLookup", propertyValue = "jms/brokerageOrders")
        })
public class OrderReceiver implements MessageListener {
    @Resource(name = "jms/brokerageConnections")
    private ConnectionFactory connections;

    @Resource(name = "jms/brokerageQuotes")
    private Topic quotes;

    @Resource
    private TransactionSynchronizationRegistry transaction;

    @Override
    public void onMessage(Message message) {
        Quote quote = Receiving.receive(message, transaction, OrderDesk::settle).quote();
        if (quote != null) {
            Messages.send(connections, quotes, context -> OrderMessages.of(context, quote));
            QueueFigures.ALL.published();
        }
    }
}
