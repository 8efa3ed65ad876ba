package leadline.brokerage.web;

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

/** 200 with the switches in force when the database answers, else 503 with the reason. */
public final class HealthServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = Logger.getLogger(HealthServlet.class.getName());

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Application application = Application.of(getServletContext());
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("status", "up");
        body.put("mode", application.mode().word());
        body.put("calls", application.calls().word());
        body.put("copies", Parcel.copies());
        body.put("orders", application.orders().word());
        body.put("summary_cache", application.summary().seconds());
        body.putAll(ExtraCosts.levels(application.extraCosts()));
        body.put("version", application.version());
        int status = 200;
        try {
            body.put("accounts", application.brokerage().accounts());
        } catch (RuntimeException e) {
            LOG.log(Level.WARNING, "not healthy: {0}", e.toString());
            status = 503;
            body.put("status", "down");
            body.put("error", e instanceof ModeUnavailable ? e.getMessage() : "the database does not answer");
        }
        Replies.json(response, status, body);
    }
}
