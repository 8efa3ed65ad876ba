package leadline.dealership.web;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;
import leadline.dealership.domain.DeliveryFigures;

/** The operations of the plant and the supplier's deliveries as JSON under {@code /api}. */
public final class ApiServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
            throws ServletException, IOException {
        try {
            if (!Application.of(getServletContext()).answers(request, response)) {
                super.service(request, response);
            }
        } catch (RuntimeException e) {
            String what = request.getMethod() + " " + request.getRequestURI();
            send(response, PlantApi.Reply.failed(Failure.of(e, what)));
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        switch (path(request)) {
            case "/figures" ->
                Replies.json(
                        response,
                        200,
                        JsonViews.figures(
                                application().dealership().figures(),
                                application().supplier()));
            case "/deliveries" -> send(response, PlantApi.Reply.otherMethod("POST"));
            default -> plant("GET", request, response);
        }
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        switch (path(request)) {
            case "/deliveries" -> deliver(JsonBody.of(request.getInputStream()), response);
            case "/figures" -> send(response, PlantApi.Reply.otherMethod("GET, HEAD"));
            default -> plant("POST", request, response);
        }
    }

    private void deliver(JsonBody body, HttpServletResponse response) throws IOException {
        long order = body.order();
        Packaging packaging = application().packaging();
        if (packaging.deliveries().equals("queue")) {
            packaging.queue().put(order, body.lines());
            DeliveryFigures.ALL.accept();
            Replies.json(response, 202, Map.of("order", order, "accepted", true));
        } else {
            Replies.json(
                    response, 200, JsonViews.delivery(application().dealership().deliver(order, body.lines())));
        }
    }

    private void plant(String method, HttpServletRequest request, HttpServletResponse response) throws IOException {
        PlantApi api = new PlantApi(application().dealership(), application().supplier()::order);
        send(response, api.respond(method, path(request), request.getInputStream()));
    }

    private static void send(HttpServletResponse response, PlantApi.Reply reply) throws IOException {
        if (reply.allow() != null) {
            response.setHeader("Allow", reply.allow());
        }
        if (reply.value() == null) {
            response.setStatus(reply.status());
        } else {
            Replies.json(response, reply.status(), reply.value());
        }
    }

    private static String path(HttpServletRequest request) {
        return request.getPathInfo() == null ? "/" : request.getPathInfo();
    }

    private Application application() {
        return Application.of(getServletContext());
    }
}
