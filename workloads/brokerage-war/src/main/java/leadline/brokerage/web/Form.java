package leadline.brokerage.web;

import jakarta.servlet.http.HttpServletRequest;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.SellCommand;

/** Reads commands from the fields of a form. */
final class Form {
    private final HttpServletRequest request;

    Form(HttpServletRequest request) {
        this.request = request;
    }

    /** Empty counts as missing. */
    String optional(String name) {
        String value = request.getParameter(name);
        return value == null || value.isEmpty() ? null : value;
    }

    String required(String name) {
        String value = optional(name);
        if (value == null) {
            throw BrokerageException.bad(name + " is missing");
        }
        return value;
    }

    private Long number(String name) {
        String value = optional(name);
        try {
            return value == null ? null : Long.valueOf(value.strip());
        } catch (NumberFormatException e) {
            throw BrokerageException.bad(name + " must be a whole number, got \"" + value + "\"");
        }
    }

    BuyCommand buy() {
        required("quantity");
        return new BuyCommand(required("symbol"), quantity(number("quantity")), number("quote"), optional("command"));
    }

    SellCommand sell() {
        return new SellCommand(number("holding"), optional("buy"), number("quote"), optional("command"));
    }

    Profile profile() {
        return new Profile(
                request.getParameter("full_name"),
                request.getParameter("address"),
                request.getParameter("email"),
                request.getParameter("card"));
    }

    Registration registration() {
        return new Registration(
                required("user"),
                required("password"),
                profile(),
                Checks.money(required("opening_balance"), "opening_balance"));
    }

    /** The parameter {@code symbols}; null without it. */
    static List<String> symbols(HttpServletRequest request) {
        String list = request.getParameter("symbols");
        return list == null || list.isBlank()
                ? null
                : Stream.of(list.split(","))
                        .map(symbol -> symbol.strip().toUpperCase(Locale.ROOT))
                        .filter(symbol -> !symbol.isEmpty())
                        .distinct()
                        .toList();
    }

    static int quantity(long quantity) {
        return (int) Math.max(Integer.MIN_VALUE, Math.min(Integer.MAX_VALUE, quantity));
    }
}
