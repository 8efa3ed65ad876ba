package leadline.dealership.messaging;

import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import leadline.common.MessagingFailure;
import leadline.dealership.domain.Dealership;

/**
 * Takes deliveries in. Receiving and taking in are one transaction of the container; what fails is delivered again, and
 * a delivery that was taken in before changes nothing.
 */
@MessageDriven(
        name = "DeliveryReceiver",
        activationConfig = {
            @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Queue"),
            @ActivationConfigProperty(propertyName = "destinationLookup", propertyValue = "jms/dealershipDeliveries")
        })
public class DeliveryReceiver implements MessageListener {
    /** Whatever the mode of the pages: a servlet's transaction in code has no place here. */
    private static final String BEAN = "java:module/SessionDealership!" + Dealership.class.getName();

    @Override
    public void onMessage(Message message) {
        try {
            MapMessage delivery = (MapMessage) message;
            dealership().deliver(DeliveryMessages.order(delivery), DeliveryMessages.lines(delivery));
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }

    private static Dealership dealership() {
        try {
            return InitialContext.doLookup(BEAN);
        } catch (NamingException e) {
            throw new IllegalStateException(e);
        }
    }
}
