package leadline.dealership.web;

import jakarta.servlet.http.HttpServletRequest;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.SellCommand;

/** Reads commands from the fields of a form or a query. */
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
            throw DealershipException.bad(name + " is missing");
        }
        return value;
    }

    long number(String name) {
        String value = required(name);
        try {
            return Long.parseLong(value.strip());
        } catch (NumberFormatException e) {
            throw DealershipException.bad(name + " must be a whole number, got \"" + value + "\"");
        }
    }

    int quantity() {
        return JsonBody.quantity(number("quantity"));
    }

    CartLine line() {
        int quantity = quantity();
        if (quantity < 1) {
            throw DealershipException.bad("quantity must be 1 or more, got " + quantity);
        }
        return new CartLine(required("model"), quantity);
    }

    SellCommand sell() {
        return new SellCommand(optional("command"), required("model"), quantity());
    }
}
