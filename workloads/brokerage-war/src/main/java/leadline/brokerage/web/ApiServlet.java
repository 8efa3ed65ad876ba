package leadline.brokerage.web;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.Login;

/** The operations of the pages as JSON under {@code /api}. */
public final class ApiServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final Set<String> READS = Set.of("/home", "/portfolio", "/quotes", "/account", "/profile");
    private static final Set<String> WRITES = Set.of("/login", "/logout", "/register", "/buy", "/sell", "/profile");

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
            throws ServletException, IOException {
        try {
            super.service(request, response);
        } catch (RuntimeException e) {
            Replies.Failure failure = Replies.failure(request, e);
            Replies.json(response, failure.status(), JsonViews.error(failure));
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = path(request);
        if (!READS.contains(path)) {
            refuse(response, WRITES.contains(path), "POST");
            return;
        }
        Login visitor = visitor(request);
        long account = visitor.account();
        Replies.json(
                response,
                200,
                switch (path) {
                    case "/home" ->
                        JsonViews.home(
                                brokerage().home(account),
                                application().summary().get());
                    case "/portfolio" -> JsonViews.portfolio(brokerage().portfolio(account));
                    case "/account" -> JsonViews.account(brokerage().account(account));
                    case "/profile" -> JsonViews.profile(brokerage().profile(account));
                    default -> quotes(request);
                });
    }

    private Map<String, Object> quotes(HttpServletRequest request) {
        List<String> symbols = Form.symbols(request);
        String after = request.getParameter("after");
        return JsonViews.quotes(
                symbols == null
                        ? brokerage().quotesAfter(after == null ? "" : after, PageServlet.PAGE_SIZE)
                        : brokerage().quotes(symbols));
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = path(request);
        if (!WRITES.contains(path)) {
            refuse(response, READS.contains(path), "GET, HEAD");
            return;
        }
        switch (path) {
            case "/login" -> {
                JsonBody body = JsonBody.of(request);
                enter(request, response, brokerage().login(body.user(), body.password()));
            }
            case "/register" ->
                enter(
                        request,
                        response,
                        brokerage().register(JsonBody.of(request).registration()));
            case "/logout" -> {
                Visitor.leave(request);
                Replies.json(response, 200, Map.of());
            }
            default -> Replies.json(response, 200, change(path, visitor(request).account(), JsonBody.of(request)));
        }
    }

    private Map<String, Object> change(String path, long account, JsonBody body) {
        return switch (path) {
            case "/buy" -> JsonViews.order(brokerage().buy(account, body.buy()));
            case "/sell" -> JsonViews.order(brokerage().sell(account, body.sell()));
            default -> {
                brokerage().updateProfile(account, body.profile());
                yield JsonViews.profile(body.profile());
            }
        };
    }

    private static void enter(HttpServletRequest request, HttpServletResponse response, Login login)
            throws IOException {
        Visitor.enter(request, login);
        Replies.json(response, 200, JsonViews.login(login));
    }

    private static Login visitor(HttpServletRequest request) {
        Login visitor = Visitor.of(request);
        if (visitor == null) {
            throw BrokerageException.unauthorized("not logged in");
        }
        return visitor;
    }

    private static void refuse(HttpServletResponse response, boolean otherMethod, String allow) throws IOException {
        if (otherMethod) {
            response.setHeader("Allow", allow);
            Replies.json(
                    response, 405, JsonViews.error(new Replies.Failure(405, "this address takes " + allow + " only")));
        } else {
            Replies.json(response, 404, JsonViews.error(new Replies.Failure(404, "there is no such address")));
        }
    }

    private static String path(HttpServletRequest request) {
        return request.getPathInfo() == null ? "/" : request.getPathInfo();
    }

    private Application application() {
        return Application.of(getServletContext());
    }

    private Brokerage brokerage() {
        return application().brokerage();
    }
}
