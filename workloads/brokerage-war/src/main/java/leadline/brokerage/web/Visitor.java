package leadline.brokerage.web;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpSession;
import leadline.brokerage.domain.Login;

/** Who sends a request, kept in the HTTP session. */
final class Visitor {
    private static final String ACCOUNT = "account";
    private static final String USER = "user";

    private Visitor() {}

    /** Null when not logged in. */
    static Login of(HttpServletRequest request) {
        HttpSession session = request.getSession(false);
        if (session == null) {
            return null;
        }
        Long account = (Long) session.getAttribute(ACCOUNT);
        return account == null ? null : new Login(account, (String) session.getAttribute(USER));
    }

    /** A new session, so that one known before the login is worth nothing. */
    static void enter(HttpServletRequest request, Login login) {
        leave(request);
        HttpSession session = request.getSession(true);
        session.setAttribute(ACCOUNT, login.account());
        session.setAttribute(USER, login.user());
    }

    static void leave(HttpServletRequest request) {
        HttpSession session = request.getSession(false);
        if (session != null) {
            session.invalidate();
        }
    }
}
