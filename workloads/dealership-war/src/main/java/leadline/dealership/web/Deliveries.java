package leadline.dealership.web;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DeliveryFigures;
import leadline.dealership.domain.DeliveryQueue;
import leadline.dealership.domain.PartLine;

/** Whether deliveries are taken in by the request or by way of a queue, by the system property {@value #PROPERTY}. */
enum Deliveries {
    DIRECT,
    QUEUE;

    static final String PROPERTY = "dealership.deliveries";
    private static final String BEAN = "java:module/JmsDeliveryQueue!" + DeliveryQueue.class.getName();
    private static final String CLASS = "leadline.dealership.messaging.JmsDeliveryQueue";

    static Deliveries configured() {
        String word = System.getProperty(PROPERTY, "direct");
        for (Deliveries deliveries : values()) {
            if (deliveries.word().equals(word)) {
                if (deliveries == QUEUE) {
                    requireArchive();
                }
                return deliveries;
            }
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be direct or queue");
    }

    private static void requireArchive() {
        try {
            Class.forName(CLASS, false, Deliveries.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            throw new IllegalStateException(
                    "the system property " + PROPERTY + " is \"queue\", which needs the archive dealership-queue.war"
                            + " on a server with messaging and enterprise beans",
                    e);
        }
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Status of the response. */
    int status() {
        return this == QUEUE ? 202 : 200;
    }

    /** Takes a delivery in, or sees to it that it will be; what the supplier is told. */
    Map<String, Object> take(Dealership dealership, long order, List<PartLine> lines) {
        if (this == DIRECT) {
            return JsonViews.delivery(dealership.deliver(order, lines));
        }
        queue().put(order, lines);
        DeliveryFigures.ALL.accept();
        return Map.of("order", order, "accepted", true);
    }

    private static DeliveryQueue queue() {
        try {
            return InitialContext.doLookup(BEAN);
        } catch (NamingException e) {
            throw new ModeUnavailable(
                    "deliveries through a queue need a server with messaging (" + BEAN + ": " + e + ")", e);
        }
    }
}
