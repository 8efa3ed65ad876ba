package leadline.common;

import jakarta.jms.JMSException;

/** The messaging provider failed; the container rolls the transaction back. */
public final class MessagingFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public MessagingFailure(JMSException cause) {
        super(cause.getMessage(), cause);
    }
}
