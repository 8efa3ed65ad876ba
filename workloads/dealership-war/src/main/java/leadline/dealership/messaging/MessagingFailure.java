package leadline.dealership.messaging;

import jakarta.jms.JMSException;

/** The messaging provider failed; the container rolls the transaction back. */
final class MessagingFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    MessagingFailure(JMSException cause) {
        super(cause.getMessage(), cause);
    }
}
