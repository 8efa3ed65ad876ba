package leadline.brokerage.messaging;

import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import leadline.brokerage.domain.QueueFigures;
import leadline.common.MessagingFailure;

/** Follows the quotes, as a ticker would: the latest trade of each instrument, whatever order messages come in. */
@MessageDriven(
        name = "QuoteReceiver",
        activationConfig = {
            @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Topic"),
            @ActivationConfigProperty(propertyName = "destinationLookup", propertyValue = "jms/brokerageQuotes")
        })
public class QuoteReceiver implements MessageListener {
    private static final Map<String, Long> LATEST = new ConcurrentHashMap<>();

    @Override
    public void onMessage(Message message) {
        try {
            MapMessage quote = (MapMessage) message;
            LATEST.merge(OrderMessages.symbol(quote), OrderMessages.number(quote), Math::max);
            QueueFigures.ALL.received();
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }
}
