package leadline.dealership.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.ExtraCosts;
import leadline.common.ModeUnavailable;
import leadline.common.Parcel;
import leadline.dealership.domain.DeliveryFigures;

/** 200 with the switches in force when the database answers, else 503 with the reason. */
public final class HealthServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = Logger.getLogger(HealthServlet.class.getName());

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Application application = Application.of(getServletContext());
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("status", "up");
        body.put("mode", application.packaging().mode());
        body.put("calls", application.packaging().calls());
        body.put("deliveries", application.packaging().deliveries());
        body.put("deliveries_given_up", DeliveryFigures.ALL.givenUp());
        body.put("copies", Parcel.copies());
        body.put("supplier", application.supplier().address());
        body.put("orders_posted", application.supplier().posted());
        body.put("orders_not_posted", application.supplier().failed());
        body.putAll(ExtraCosts.levels(application.extraCosts()));
        body.put("version", application.version());
        int status = 200;
        try {
            body.put("dealers", application.dealership().dealers());
        } catch (RuntimeException e) {
            LOG.log(Level.WARNING, "not healthy: {0}", e.toString());
            status = 503;
            body.put("status", "down");
            body.put("error", e instanceof ModeUnavailable ? e.getMessage() : "the database does not answer");
        }
        Replies.json(response, status, body);
    }
}
