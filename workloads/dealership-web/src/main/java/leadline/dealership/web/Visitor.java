package leadline.dealership.web;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpSession;
import java.util.ArrayList;
import java.util.List;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Login;

/** Who sends a request, and the cart, kept in the HTTP session. */
final class Visitor {
    /** Most lines of a cart. */
    static final int MOST_LINES = 20;

    private static final String DEALER = "dealer";
    private static final String NAME = "name";
    private static final String CART = "cart";

    private Visitor() {}

    /** Null when not logged in. */
    static Login of(HttpServletRequest request) {
        HttpSession session = request.getSession(false);
        if (session == null) {
            return null;
        }
        Long dealer = (Long) session.getAttribute(DEALER);
        return dealer == null ? null : new Login(dealer, (String) session.getAttribute(NAME));
    }

    /** A new session, so that one known before the login is worth nothing. */
    static void enter(HttpServletRequest request, Login login) {
        leave(request);
        HttpSession session = request.getSession(true);
        session.setAttribute(DEALER, login.dealer());
        session.setAttribute(NAME, login.name());
    }

    static void leave(HttpServletRequest request) {
        HttpSession session = request.getSession(false);
        if (session != null) {
            session.invalidate();
        }
    }

    /** The lines in the order they were added. */
    static List<CartLine> cart(HttpServletRequest request) {
        HttpSession session = request.getSession(false);
        Object lines = session == null ? null : session.getAttribute(CART);
        List<CartLine> found = new ArrayList<>();
        if (lines instanceof CartLine[] kept) {
            found.addAll(List.of(kept));
        }
        return found;
    }

    /** More of the same model raises its line. BAD_REQUEST when the cart is full. */
    static void add(HttpServletRequest request, CartLine line) {
        List<CartLine> lines = cart(request);
        for (int at = 0; at < lines.size(); at++) {
            if (lines.get(at).model().equals(line.model())) {
                long quantity = (long) lines.get(at).quantity() + line.quantity();
                lines.set(at, new CartLine(line.model(), (int) Math.min(Integer.MAX_VALUE, quantity)));
                keep(request, lines);
                return;
            }
        }
        if (lines.size() == MOST_LINES) {
            throw DealershipException.bad("a cart has at most " + MOST_LINES + " lines");
        }
        lines.add(line);
        keep(request, lines);
    }

    static void remove(HttpServletRequest request, String model) {
        List<CartLine> lines = cart(request);
        lines.removeIf(line -> line.model().equals(model));
        keep(request, lines);
    }

    static void clear(HttpServletRequest request) {
        keep(request, List.of());
    }

    private static void keep(HttpServletRequest request, List<CartLine> lines) {
        request.getSession(true).setAttribute(CART, lines.toArray(CartLine[]::new));
    }
}
