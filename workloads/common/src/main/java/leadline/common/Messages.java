package leadline.common;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.Destination;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;

/** Messages of the applications' queues. */
public final class Messages {
    /** Writes a message. */
    public interface Writer {
        Message write(JMSContext context) throws JMSException;
    }

    private Messages() {}

    /** Sends a message in the container's transaction. */
    public static void send(ConnectionFactory connections, Destination to, Writer writer) {
        try (JMSContext context = connections.createContext()) {
            context.createProducer().send(to, writer.write(context));
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }
}
