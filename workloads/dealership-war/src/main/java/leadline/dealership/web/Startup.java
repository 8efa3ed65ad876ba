package leadline.dealership.web;

import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import java.io.IOException;
import java.io.InputStream;
import java.util.jar.Attributes;
import java.util.jar.Manifest;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.Queued;
import leadline.dealership.domain.DeliveryQueue;

/** Reads the configuration once; a wrong one stops the deployment with its reason. */
public final class Startup implements ServletContextListener {
    private static final Logger LOG = Logger.getLogger(Startup.class.getName());

    @Override
    public void contextInitialized(ServletContextEvent event) {
        try {
            start(event.getServletContext());
        } catch (IllegalStateException e) {
            LOG.log(Level.SEVERE, "dealership does not start: {0}", e.getMessage());
            throw e;
        }
    }

    @Override
    public void contextDestroyed(ServletContextEvent event) {
        Application application = Application.of(event.getServletContext());
        if (application != null) {
            application.supplier().close();
        }
    }

    private static void start(ServletContext context) {
        Mode mode = Mode.configured();
        Queued<DeliveryQueue> deliveries = new Queued<>(
                "dealership.deliveries",
                DeliveryQueue.class,
                "leadline.dealership.messaging.JmsDeliveryQueue",
                "dealership-queue.war");
        Application application = new Application(mode, Calls.configured(mode), deliveries, version(context));
        application.publish(context);
        application.supplier().start();
        LOG.log(Level.INFO, "dealership {0}, mode {1}, supplier {2}", new Object[] {
            application.version(), mode.word(), application.supplier().address()
        });
    }

    private static String version(ServletContext context) {
        try (InputStream in = context.getResourceAsStream("/META-INF/MANIFEST.MF")) {
            String version = in == null
                    ? null
                    : new Manifest(in).getMainAttributes().getValue(Attributes.Name.IMPLEMENTATION_VERSION);
            return version == null ? "unknown" : version;
        } catch (IOException e) {
            return "unknown";
        }
    }
}
