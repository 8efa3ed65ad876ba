package leadline.dealership.web;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import leadline.common.Html;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.Login;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.PurchaseCommand;
import leadline.dealership.domain.SalesOrder;

/** The pages. */
public final class PageServlet extends HttpServlet {
    static final int PAGE_SIZE = 10;
    private static final long serialVersionUID = 1L;
    private static final Set<String> READS =
            Set.of("/home", "/catalogue", "/model", "/cart", "/inventory", "/orders", "/order");
    private static final Set<String> WRITES =
            Set.of("/login", "/logout", "/cart/add", "/cart/remove", "/cart/clear", "/checkout", "/sell", "/cancel");

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
            throws ServletException, IOException {
        request.setCharacterEncoding("UTF-8");
        try {
            if (!Application.of(getServletContext()).answers(request, response)) {
                super.service(request, response);
            }
        } catch (RuntimeException e) {
            Failure failure = Failure.of(e, request.getMethod() + " " + request.getRequestURI());
            problem(request, response, failure.status(), failure.message());
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = request.getServletPath();
        Login visitor = Visitor.of(request);
        if (path.isEmpty() || path.equals("/")) {
            page(request, response, 200, "Log in", Pages.login(request.getContextPath(), visitor, null));
        } else if (!READS.contains(path)) {
            refuse(request, response, WRITES.contains(path), "POST");
        } else if (visitor == null) {
            Replies.redirect(request, response, "/");
        } else {
            show(request, response, visitor.dealer());
        }
    }

    private void show(HttpServletRequest request, HttpServletResponse response, long dealer) throws IOException {
        String root = request.getContextPath();
        Form form = new Form(request);
        switch (request.getServletPath()) {
            case "/home" ->
                page(request, response, 200, "Home", Pages.home(dealership().home(dealer)));
            case "/catalogue" -> page(request, response, 200, "Catalogue", catalogue(root, form));
            case "/model" -> {
                Model model = dealership().model(form.required("id"));
                page(request, response, 200, "Model", Pages.model(root, model));
            }
            case "/cart" -> page(request, response, 200, "Cart", cart(request));
            case "/inventory" ->
                page(
                        request,
                        response,
                        200,
                        "Inventory",
                        Pages.inventory(root, dealership().inventory(dealer)));
            case "/orders" ->
                page(
                        request,
                        response,
                        200,
                        "Orders",
                        Pages.orders(root, dealership().openOrders(dealer)));
            default -> {
                SalesOrder order = dealership().order(dealer, form.number("id"));
                page(request, response, 200, "Order", Pages.order(root, order));
            }
        }
    }

    private Html catalogue(String root, Form form) {
        String before = form.optional("before");
        String after = form.optional("after");
        List<Model> models = before == null
                ? dealership().models(after == null ? "" : after, PAGE_SIZE)
                : dealership().modelsBefore(before, PAGE_SIZE);
        return Pages.catalogue(root, models, before != null || models.size() == PAGE_SIZE);
    }

    private Html cart(HttpServletRequest request) {
        List<Pages.Priced> lines = Visitor.cart(request).stream()
                .map(line -> new Pages.Priced(line, dealership().model(line.model())))
                .toList();
        return Pages.cart(request.getContextPath(), lines);
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = request.getServletPath();
        Form form = new Form(request);
        if (!WRITES.contains(path)) {
            refuse(request, response, READS.contains(path) || path.isEmpty() || path.equals("/"), "GET, HEAD");
            return;
        }
        Login visitor = Visitor.of(request);
        switch (path) {
            case "/login" -> login(request, response, form);
            case "/logout" -> {
                Visitor.leave(request);
                Replies.redirect(request, response, "/");
            }
            default -> {
                if (visitor == null) {
                    Replies.redirect(request, response, "/");
                } else {
                    change(request, response, form, visitor.dealer());
                }
            }
        }
    }

    private void change(HttpServletRequest request, HttpServletResponse response, Form form, long dealer)
            throws IOException {
        switch (request.getServletPath()) {
            case "/cart/add" -> {
                Visitor.add(request, form.line());
                page(request, response, 200, "Cart", cart(request));
            }
            case "/cart/remove" -> {
                Visitor.remove(request, form.required("model"));
                page(request, response, 200, "Cart", cart(request));
            }
            case "/cart/clear" -> {
                Visitor.clear(request);
                page(request, response, 200, "Cart", cart(request));
            }
            case "/checkout" -> {
                PurchaseCommand command = new PurchaseCommand(form.optional("command"), Visitor.cart(request));
                if (command.lines().isEmpty()) {
                    throw DealershipException.bad("the cart is empty");
                }
                SalesOrder order = dealership().purchase(dealer, command);
                Visitor.clear(request);
                order(request, response, order);
            }
            case "/sell" -> order(request, response, dealership().sell(dealer, form.sell()));
            default -> order(request, response, dealership().cancel(dealer, form.number("id")));
        }
    }

    private void order(HttpServletRequest request, HttpServletResponse response, SalesOrder order) throws IOException {
        page(request, response, 200, "Order", Pages.order(request.getContextPath(), order));
    }

    private void login(HttpServletRequest request, HttpServletResponse response, Form form) throws IOException {
        try {
            Visitor.enter(request, dealership().login(form.required("name"), form.required("password")));
            Replies.redirect(request, response, "/home");
        } catch (RuntimeException e) {
            Failure failure = Failure.of(e, request.getMethod() + " " + request.getRequestURI());
            Html again = Pages.login(request.getContextPath(), null, failure.message());
            page(request, response, failure.status(), "Log in", again);
        }
    }

    private static void refuse(
            HttpServletRequest request, HttpServletResponse response, boolean otherMethod, String allow)
            throws IOException {
        if (otherMethod) {
            response.setHeader("Allow", allow);
            problem(request, response, 405, "This address takes " + allow + " only.");
        } else {
            problem(request, response, 404, "There is no such page.");
        }
    }

    private static void problem(HttpServletRequest request, HttpServletResponse response, int status, String message)
            throws IOException {
        page(request, response, status, "Error " + status, Pages.problem(message));
    }

    private static void page(
            HttpServletRequest request, HttpServletResponse response, int status, String title, Html body)
            throws IOException {
        Replies.page(response, status, Layout.page(request.getContextPath(), title, Visitor.of(request), body));
    }

    private Dealership dealership() {
        return Application.of(getServletContext()).dealership();
    }
}
