package leadline.brokerage.web;

import java.util.Locale;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.OrderQueue;

/** Whether orders are filled by the request or by way of a queue, chosen by the system property {@value #PROPERTY}. */
enum Orders {
    DIRECT,
    QUEUE;

    static final String PROPERTY = "brokerage.orders";
    private static final String BEAN = "java:module/JmsOrderQueue!" + OrderQueue.class.getName();
    private static final String CLASS = "leadline.brokerage.messaging.JmsOrderQueue";

    static Orders configured() {
        String word = System.getProperty(PROPERTY, "direct");
        for (Orders orders : values()) {
            if (orders.word().equals(word)) {
                if (orders == QUEUE) {
                    requireArchive();
                }
                return orders;
            }
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be direct or queue");
    }

    private static void requireArchive() {
        try {
            Class.forName(CLASS, false, Orders.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            throw new IllegalStateException(
                    "the system property " + PROPERTY + " is \"queue\", which needs the archive brokerage-queue.war"
                            + " on a server with messaging and enterprise beans",
                    e);
        }
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    Brokerage around(Brokerage brokerage) {
        return this == DIRECT ? brokerage : new QueueingBrokerage(brokerage, queue());
    }

    static OrderQueue queue() {
        try {
            return InitialContext.doLookup(BEAN);
        } catch (NamingException e) {
            throw new ModeUnavailable(
                    "orders through a queue need a server with messaging (" + BEAN + ": " + e + ")", e);
        }
    }
}
