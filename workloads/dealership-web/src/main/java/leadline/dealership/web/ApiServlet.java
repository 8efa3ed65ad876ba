package leadline.dealership.web;

import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.DeliveryFigures;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.WorkOrder;

/** The operations of the plant and the supplier's deliveries as JSON under {@code /api}. */
public final class ApiServlet extends HttpServlet {
    static final int NOTHING_TO_CLAIM = 204;
    private static final long serialVersionUID = 1L;
    private static final Pattern WORK = Pattern.compile("/work/([0-9]{1,18})(?:/(advance|complete|cancel|parts))?");

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
        Matcher work = WORK.matcher(path);
        if (path.equals("/figures")) {
            Replies.json(
                    response,
                    200,
                    JsonViews.figures(dealership().figures(), application().supplier()));
        } else if (work.matches() && work.group(2) == null) {
            Replies.json(response, 200, JsonViews.status(dealership().status(Long.parseLong(work.group(1)))));
        } else {
            refuse(response, work.matches() || isWrite(path), "POST");
        }
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = path(request);
        Matcher work = WORK.matcher(path);
        switch (path) {
            case "/work" -> {
                WorkOrder made = dealership().schedule(JsonBody.of(request).schedule());
                Replies.json(response, 200, JsonViews.work(made));
            }
            case "/work/claim" -> {
                Optional<WorkOrder> claimed = dealership().claimLarge();
                if (claimed.isEmpty()) {
                    response.setStatus(NOTHING_TO_CLAIM);
                } else {
                    Replies.json(response, 200, JsonViews.work(claimed.get()));
                }
            }
            case "/deliveries" -> {
                JsonBody body = JsonBody.of(request);
                long order = body.order();
                Packaging packaging = application().packaging();
                if (packaging.deliveries().equals("queue")) {
                    packaging.queue().put(order, body.lines());
                    DeliveryFigures.ALL.accept();
                    Replies.json(response, 202, Map.of("order", order, "accepted", true));
                } else {
                    Replies.json(response, 200, JsonViews.delivery(dealership().deliver(order, body.lines())));
                }
            }
            default -> {
                if (work.matches() && work.group(2) != null) {
                    long id = Long.parseLong(work.group(1));
                    Replies.json(response, 200, change(id, work.group(2), request));
                } else {
                    refuse(response, work.matches() || path.equals("/figures"), "GET, HEAD");
                }
            }
        }
    }

    private Map<String, Object> change(long id, String operation, HttpServletRequest request) throws IOException {
        switch (operation) {
            case "advance" -> {
                Advance advance = dealership().advance(id);
                application().supplier().order(advance.ordered());
                return JsonViews.advance(advance);
            }
            case "complete" -> {
                return JsonViews.work(
                        dealership().complete(id, JsonBody.of(request).quantity()));
            }
            case "cancel" -> {
                return JsonViews.work(dealership().cancelWork(id));
            }
            case "parts" -> {
                PurchaseOrder order =
                        dealership().requestParts(id, JsonBody.of(request).lines());
                application().supplier().order(order);
                return JsonViews.purchaseOrder(order);
            }
            default -> throw DealershipException.notFound("there is no such operation");
        }
    }

    private static boolean isWrite(String path) {
        return path.equals("/work") || path.equals("/work/claim") || path.equals("/deliveries");
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

    private Dealership dealership() {
        return application().dealership();
    }
}
