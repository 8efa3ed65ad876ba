package leadline.brokerage.web;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import java.io.IOException;
import java.io.InputStream;
import java.util.EnumSet;
import java.util.jar.Attributes;
import java.util.jar.Manifest;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.brokerage.domain.OrderQueue;
import leadline.common.ExtraCosts;
import leadline.common.Queued;

/** Reads the configuration once; a wrong one stops the deployment with its reason. */
public final class Startup implements ServletContextListener {
    private static final Logger LOG = Logger.getLogger(Startup.class.getName());

    @Override
    public void contextInitialized(ServletContextEvent event) {
        try {
            start(event.getServletContext());
        } catch (IllegalStateException e) {
            LOG.log(Level.SEVERE, "brokerage does not start: {0}", e.getMessage());
            throw e;
        }
    }

    private static void start(ServletContext context) {
        Mode mode = Mode.configured();
        Queued<OrderQueue> orders = new Queued<>(
                "brokerage.orders",
                OrderQueue.class,
                "leadline.brokerage.messaging.JmsOrderQueue",
                "brokerage-queue.war");
        Application application = new Application(
                mode, Calls.configured(mode), orders, version(context), SummaryCache.configuredSeconds());
        application.publish(context);
        ExtraCosts costs = application.extraCosts();
        if (costs != null) {
            context.addFilter("extra-costs", costs)
                    .addMappingForUrlPatterns(EnumSet.of(DispatcherType.REQUEST), false, "/*");
            LOG.log(Level.WARNING, "every request costs more, as asked: {0}", ExtraCosts.levels(costs));
        }
        int leak = Retention.configuredBytes();
        if (leak > 0) {
            context.addFilter("retention", new Retention(leak))
                    .addMappingForUrlPatterns(EnumSet.of(DispatcherType.REQUEST), false, "/*");
            LOG.log(Level.WARNING, "brokerage leaks {0} bytes a request, as {1} asks", new Object[] {
                leak, Retention.PROPERTY
            });
        }
        LOG.log(Level.INFO, "brokerage {0}, mode {1}", new Object[] {
            application.version(), application.mode().word()
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
