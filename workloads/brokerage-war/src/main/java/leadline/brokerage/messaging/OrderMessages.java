package leadline.brokerage.messaging;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.SellCommand;

/** Orders and quotes as messages of names and plain values. */
final class OrderMessages {
    private static final String ACCOUNT = "account";
    private static final String ACCEPTED = "accepted";
    private static final String COMMAND = "command";
    private static final String SYMBOL = "symbol";
    private static final String QUANTITY = "quantity";
    private static final String QUOTE = "quote";
    private static final String HOLDING = "holding";
    private static final String BOUGHT_BY = "bought_by";
    private static final String PRICE = "price";

    private OrderMessages() {}

    static MapMessage of(JMSContext context, QueuedOrder order) throws JMSException {
        MapMessage message = context.createMapMessage();
        message.setLong(ACCOUNT, order.account());
        message.setLong(ACCEPTED, order.acceptedAt());
        message.setString(COMMAND, order.command());
        if (order.buy() != null) {
            message.setString(SYMBOL, order.buy().symbol());
            message.setInt(QUANTITY, order.buy().quantity());
            number(message, QUOTE, order.buy().quote());
        } else {
            number(message, HOLDING, order.sell().holding());
            message.setString(BOUGHT_BY, order.sell().boughtBy());
            number(message, QUOTE, order.sell().quote());
        }
        return message;
    }

    /** Left out where there is none: Open MQ refuses null, and a name that is missing reads as null. */
    private static void number(MapMessage message, String name, Long value) throws JMSException {
        if (value != null) {
            message.setLong(name, value);
        }
    }

    static QueuedOrder order(MapMessage message) throws JMSException {
        long account = message.getLong(ACCOUNT);
        long accepted = message.getLong(ACCEPTED);
        String command = message.getString(COMMAND);
        Long quote = (Long) message.getObject(QUOTE);
        String symbol = message.getString(SYMBOL);
        if (symbol != null) {
            BuyCommand buy = new BuyCommand(symbol, message.getInt(QUANTITY), quote, command);
            return new QueuedOrder(account, buy, null, accepted);
        }
        Long holding = (Long) message.getObject(HOLDING);
        SellCommand sell = new SellCommand(holding, message.getString(BOUGHT_BY), quote, command);
        return new QueuedOrder(account, null, sell, accepted);
    }

    static MapMessage of(JMSContext context, Quote quote) throws JMSException {
        MapMessage message = context.createMapMessage();
        message.setString(SYMBOL, quote.symbol());
        message.setLong(PRICE, quote.price());
        message.setLong(QUOTE, quote.trades());
        return message;
    }

    static String symbol(MapMessage quote) throws JMSException {
        return quote.getString(SYMBOL);
    }

    /** Number of trades the price stands for. */
    static long number(MapMessage quote) throws JMSException {
        return quote.getLong(QUOTE);
    }
}
