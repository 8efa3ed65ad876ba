package leadline.dealership.messaging;

import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.MessagingFailure;
import leadline.dealership.domain.DeliveryFigures;

/** Counts the deliveries that the server gave up: the application posts their purchase orders to the supplier again. */
@MessageDriven(
        name = "DeadDeliveryReceiver",
        activationConfig = {
            @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Queue"),
            @ActivationConfigProperty(
                    propertyName = "destinationLookup",
                    propertyValue = "jms/dealershipDeadDeliveries")
        })
public class DeadDeliveryReceiver implements MessageListener {
    private static final Logger LOG = Logger.getLogger(DeadDeliveryReceiver.class.getName());

    @Override
    public void onMessage(Message message) {
        try {
            DeliveryFigures.ALL.giveUp();
            LOG.log(
                    Level.WARNING,
                    "the delivery of purchase order {0} was given up",
                    DeliveryMessages.order((MapMessage) message));
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }
}
