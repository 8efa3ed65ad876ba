package leadline.dealership.messaging;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import java.util.ArrayList;
import java.util.List;
import leadline.dealership.domain.PartLine;

/** Deliveries as messages of names and plain values. */
final class DeliveryMessages {
    private static final String ORDER = "order";
    private static final String COUNT = "count";
    private static final String PART = "part_";
    private static final String QUANTITY = "quantity_";

    private DeliveryMessages() {}

    static MapMessage of(JMSContext context, long order, List<PartLine> lines) throws JMSException {
        MapMessage message = context.createMapMessage();
        message.setLong(ORDER, order);
        message.setInt(COUNT, lines.size());
        for (int i = 0; i < lines.size(); i++) {
            message.setString(PART + i, lines.get(i).part());
            message.setInt(QUANTITY + i, lines.get(i).quantity());
        }
        return message;
    }

    static long order(MapMessage message) throws JMSException {
        return message.getLong(ORDER);
    }

    static List<PartLine> lines(MapMessage message) throws JMSException {
        List<PartLine> lines = new ArrayList<>();
        for (int i = 0; i < message.getInt(COUNT); i++) {
            lines.add(new PartLine(message.getString(PART + i), message.getInt(QUANTITY + i)));
        }
        return lines;
    }
}
