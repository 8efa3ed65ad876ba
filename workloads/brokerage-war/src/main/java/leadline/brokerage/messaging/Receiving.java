package leadline.brokerage.messaging;

import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.transaction.Status;
import jakarta.transaction.Synchronization;
import jakarta.transaction.TransactionSynchronizationRegistry;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import leadline.brokerage.domain.OrderDesk;
import leadline.brokerage.domain.QueueFigures;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Settlement;
import leadline.common.MessagingFailure;

/** What both receivers of orders do around a settlement. */
final class Receiving {
    /** How a receiver has an order settled. */
    interface Step {
        Settlement settle(OrderDesk desk, QueuedOrder order);
    }

    private Receiving() {}

    /** The settlement, whose figures count once its transaction is committed. */
    static Settlement receive(Message message, TransactionSynchronizationRegistry transaction, Step step) {
        QueueFigures figures = QueueFigures.ALL;
        figures.begin();
        // Ends with the transaction, whether it is committed or not.
        Counted counted = new Counted(figures);
        transaction.registerInterposedSynchronization(counted);
        try {
            if (message.getJMSRedelivered()) {
                figures.redelivered();
            }
            QueuedOrder order = OrderMessages.order((MapMessage) message);
            Settlement settlement = step.settle(desk(), order);
            counted.order = order;
            counted.settlement = settlement;
            return settlement;
        } catch (JMSException e) {
            throw new MessagingFailure(e);
        }
    }

    /** The work of mode orm by its bean, of the other modes by JDBC: a servlet's transaction in code has no place here. */
    private static OrderDesk desk() {
        String bean = "orm".equals(System.getProperty("brokerage.mode")) ? "OrmBrokerage" : "SessionBrokerage";
        try {
            return InitialContext.doLookup("java:module/" + bean + "!" + OrderDesk.class.getName());
        } catch (NamingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Notes the end of the transaction. */
    private static final class Counted implements Synchronization {
        private final QueueFigures figures;
        private QueuedOrder order;
        private Settlement settlement;

        Counted(QueueFigures figures) {
            this.figures = figures;
        }

        @Override
        public void beforeCompletion() {}

        @Override
        public void afterCompletion(int status) {
            if (status == Status.STATUS_COMMITTED && settlement != null) {
                figures.settled(order, settlement.outcome());
            }
            figures.end();
        }
    }
}
