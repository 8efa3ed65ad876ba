package leadline.brokerage.web;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.jr.ob.JSON;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Map;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;

/** Reads commands from the JSON object a request carries. */
final class JsonBody {
    private static final int LONGEST = 16_384;

    private final Map<String, Object> fields;

    private JsonBody(Map<String, Object> fields) {
        this.fields = fields;
    }

    /** The body; BAD_REQUEST when it is not one JSON object of at most 16 KiB. */
    static JsonBody of(HttpServletRequest request) throws IOException {
        byte[] bytes = request.getInputStream().readNBytes(LONGEST + 1);
        if (bytes.length > LONGEST) {
            throw BrokerageException.bad("the body is longer than " + LONGEST + " bytes");
        }
        try {
            return new JsonBody(JSON.std.mapFrom(bytes));
        } catch (JsonProcessingException e) {
            throw BrokerageException.bad("the body must be a JSON object");
        }
    }

    private String text(String name) {
        Object value = fields.get(name);
        if (value == null || value instanceof String) {
            return (String) value;
        }
        throw BrokerageException.bad(name + " must be a string");
    }

    private String required(String name) {
        String value = text(name);
        if (value == null || value.isEmpty()) {
            throw BrokerageException.bad(name + " is missing");
        }
        return value;
    }

    private Long number(String name) {
        Object value = fields.get(name);
        if (value == null) {
            return null;
        }
        if (value instanceof Integer || value instanceof Long) {
            return ((Number) value).longValue();
        }
        throw BrokerageException.bad(name + " must be a whole number");
    }

    String user() {
        return required("user");
    }

    String password() {
        return required("password");
    }

    BuyCommand buy() {
        String symbol = required("symbol");
        Long quantity = number("quantity");
        if (quantity == null) {
            throw BrokerageException.bad("quantity is missing");
        }
        return new BuyCommand(symbol, Form.quantity(quantity), number("quote"), text("command"));
    }

    SellCommand sell() {
        return new SellCommand(number("holding"), text("buy"), number("quote"), text("command"));
    }

    Profile profile() {
        return new Profile(text("full_name"), text("address"), text("email"), text("card"));
    }

    Registration registration() {
        Object opening = fields.get("opening_balance");
        boolean amount = opening instanceof Integer
                || opening instanceof Long
                || opening instanceof BigInteger
                || opening instanceof BigDecimal
                || opening instanceof Double
                || opening instanceof String;
        if (!amount) {
            throw BrokerageException.bad("opening_balance must be an amount");
        }
        return new Registration(user(), password(), profile(), Checks.money(opening.toString(), "opening_balance"));
    }
}
