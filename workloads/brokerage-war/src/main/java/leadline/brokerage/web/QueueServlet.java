package leadline.brokerage.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import leadline.brokerage.domain.OrderQueue;
import leadline.brokerage.domain.Outcome;
import leadline.brokerage.domain.QueueFigures;
import leadline.common.Queued;

/** Figures of the queue as JSON; below {@code /queue/times} when each order was accepted and when it took effect. */
public final class QueueServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if ("/times".equals(request.getPathInfo())) {
            times(response);
        } else if (request.getPathInfo() != null) {
            Replies.json(response, 404, JsonViews.error(new Replies.Failure(404, "there is no such address")));
        } else {
            try {
                Replies.json(response, 200, figures());
            } catch (RuntimeException e) {
                Replies.Failure failure = Replies.failure(request, e);
                Replies.json(response, failure.status(), JsonViews.error(failure));
            }
        }
    }

    private Map<String, Object> figures() {
        Queued<OrderQueue> orders = Application.of(getServletContext()).orders();
        QueueFigures figures = QueueFigures.ALL;
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("orders", orders.word());
        out.put("accepted", figures.acceptedCount());
        out.put("settled", figures.settledCount());
        for (Outcome outcome : Outcome.values()) {
            out.put(outcome.name().toLowerCase(Locale.ROOT), figures.count(outcome));
        }
        out.put("redelivered", figures.redeliveredCount());
        out.put("quotes_published", figures.publishedCount());
        out.put("quotes_received", figures.receivedCount());
        out.put("in_work", figures.inWorkCount());
        out.put("waiting", orders.chosen() ? orders.queue().waiting() : 0);
        return out;
    }

    private static void times(HttpServletResponse response) throws IOException {
        response.setContentType("text/csv");
        response.setHeader("Cache-Control", "no-store");
        long[] times = QueueFigures.ALL.times();
        PrintWriter out = response.getWriter();
        out.print("accepted_us,effective_us\n");
        for (int i = 0; i < times.length; i += 2) {
            out.print(times[i] + "," + times[i + 1] + "\n");
        }
    }
}
