package leadline.brokerage.web;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.common.Html;

/** The pages. */
public final class PageServlet extends HttpServlet {
    static final int PAGE_SIZE = 20;
    private static final long serialVersionUID = 1L;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
            throws ServletException, IOException {
        request.setCharacterEncoding("UTF-8");
        try {
            super.service(request, response);
        } catch (RuntimeException e) {
            Replies.Failure failure = Replies.failure(request, e);
            problem(request, response, failure.status(), failure.message());
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String root = request.getContextPath();
        Login visitor = Visitor.of(request);
        switch (request.getServletPath()) {
            case "", "/" -> page(request, response, 200, "Log in", PublicPages.login(root, visitor, null));
            case "/register" ->
                page(request, response, 200, "Register", PublicPages.register(root, "", NO_PROFILE, "10000.00", null));
            case "/home", "/portfolio", "/quotes", "/account", "/profile" -> {
                if (visitor == null) {
                    Replies.redirect(request, response, "/");
                } else {
                    show(request, response, visitor);
                }
            }
            case "/login", "/logout", "/buy", "/sell" -> {
                response.setHeader("Allow", "POST");
                problem(request, response, 405, "This address takes POST only.");
            }
            default -> problem(request, response, 404, "There is no such page.");
        }
    }

    private static final Profile NO_PROFILE = new Profile("", "", "", "");

    private void show(HttpServletRequest request, HttpServletResponse response, Login visitor) throws IOException {
        String root = request.getContextPath();
        long account = visitor.account();
        switch (request.getServletPath()) {
            case "/home" ->
                page(
                        request,
                        response,
                        200,
                        "Home",
                        Pages.home(
                                root,
                                brokerage().home(account),
                                application().summary().get()));
            case "/portfolio" ->
                page(
                        request,
                        response,
                        200,
                        "Portfolio",
                        Pages.portfolio(root, brokerage().portfolio(account)));
            case "/account" ->
                page(
                        request,
                        response,
                        200,
                        "Account",
                        Pages.account(brokerage().account(account)));
            case "/profile" ->
                page(
                        request,
                        response,
                        200,
                        "Profile",
                        Pages.profile(root, brokerage().profile(account), false));
            default -> {
                List<String> symbols = Form.symbols(request);
                String after = request.getParameter("after");
                List<Quote> quotes = symbols == null
                        ? brokerage().quotesAfter(after == null ? "" : after, PAGE_SIZE)
                        : brokerage().quotes(symbols);
                boolean more = symbols == null && quotes.size() == PAGE_SIZE;
                page(request, response, 200, "Quotes", Pages.quotes(root, quotes, more));
            }
        }
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Form form = new Form(request);
        switch (request.getServletPath()) {
            case "/login" -> login(request, response, form);
            case "/register" -> register(request, response, form);
            case "/logout" -> {
                Visitor.leave(request);
                Replies.redirect(request, response, "/");
            }
            case "/buy", "/sell", "/profile" -> {
                Login visitor = Visitor.of(request);
                if (visitor == null) {
                    Replies.redirect(request, response, "/");
                } else {
                    change(request, response, form, visitor);
                }
            }
            case "", "/", "/home", "/portfolio", "/quotes", "/account" -> {
                response.setHeader("Allow", "GET, HEAD");
                problem(request, response, 405, "This address takes GET only.");
            }
            default -> problem(request, response, 404, "There is no such page.");
        }
    }

    private void change(HttpServletRequest request, HttpServletResponse response, Form form, Login visitor)
            throws IOException {
        String root = request.getContextPath();
        switch (request.getServletPath()) {
            case "/buy" ->
                page(
                        request,
                        response,
                        200,
                        "Order",
                        Pages.order(root, brokerage().buy(visitor.account(), form.buy())));
            case "/sell" ->
                page(
                        request,
                        response,
                        200,
                        "Order",
                        Pages.order(root, brokerage().sell(visitor.account(), form.sell())));
            default -> {
                brokerage().updateProfile(visitor.account(), form.profile());
                page(request, response, 200, "Profile", Pages.profile(root, form.profile(), true));
            }
        }
    }

    private void login(HttpServletRequest request, HttpServletResponse response, Form form) throws IOException {
        try {
            Visitor.enter(request, brokerage().login(form.required("user"), form.required("password")));
            Replies.redirect(request, response, "/home");
        } catch (RuntimeException e) {
            Replies.Failure failure = Replies.failure(request, e);
            Html again = PublicPages.login(request.getContextPath(), null, failure.message());
            page(request, response, failure.status(), "Log in", again);
        }
    }

    private void register(HttpServletRequest request, HttpServletResponse response, Form form) throws IOException {
        try {
            Visitor.enter(request, brokerage().register(form.registration()));
            Replies.redirect(request, response, "/home");
        } catch (RuntimeException e) {
            Replies.Failure failure = Replies.failure(request, e);
            Html again = PublicPages.register(
                    request.getContextPath(),
                    form.optional("user"),
                    form.profile(),
                    form.optional("opening_balance"),
                    failure.message());
            page(request, response, failure.status(), "Register", again);
        }
    }

    private static void problem(HttpServletRequest request, HttpServletResponse response, int status, String message)
            throws IOException {
        page(request, response, status, "Error " + status, PublicPages.problem(message));
    }

    private static void page(
            HttpServletRequest request, HttpServletResponse response, int status, String title, Html body)
            throws IOException {
        Replies.page(response, status, Layout.page(request.getContextPath(), title, Visitor.of(request), body));
    }

    private Application application() {
        return Application.of(getServletContext());
    }

    private Brokerage brokerage() {
        return application().brokerage();
    }
}
