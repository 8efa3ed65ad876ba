package leadline.dealership.web;

import jakarta.servlet.ServletContext;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.ExtraCosts;
import leadline.dealership.domain.Dealership;

/** What all servlets share. */
public final class Application {
    private static final String ATTRIBUTE = Application.class.getName();
    private static final Logger LOG = Logger.getLogger(Application.class.getName());

    private static volatile Application running;

    private final Packaging packaging;
    private final String version;
    private final Supplier supplier;
    private final ExtraCosts extraCosts;
    private volatile Dealership dealership;

    private Application(Packaging packaging, String version) {
        this.packaging = packaging;
        this.version = version;
        this.supplier = Supplier.configured(() -> dealership);
        this.extraCosts = ExtraCosts.configured(
                "dealership",
                () -> dealership().models("", 1),
                () -> dealership().dealers(),
                Replies::json);
    }

    /** Before the first request; an IllegalStateException for a wrong configuration is logged with its reason. */
    public static void start(ServletContext context, java.util.function.Supplier<Packaging> packaging, String version) {
        try {
            Application application = new Application(packaging.get(), version);
            context.setAttribute(ATTRIBUTE, application);
            application.supplier.start();
            running = application;
            LOG.log(Level.INFO, "dealership {0}, mode {1}, supplier {2}", new Object[] {
                version, application.packaging.mode(), application.supplier.address()
            });
            if (application.extraCosts != null) {
                LOG.log(
                        Level.WARNING,
                        "every request costs more, as asked: {0}",
                        ExtraCosts.levels(application.extraCosts));
            }
        } catch (IllegalStateException e) {
            LOG.log(Level.SEVERE, "dealership does not start: {0}", e.getMessage());
            throw e;
        }
    }

    /** After the last request; nothing where it did not start. */
    public static void stop(ServletContext context) {
        Application application = of(context);
        if (application != null) {
            running = null;
            application.supplier.close();
        }
    }

    /** For beans that are called from outside; an IllegalStateException unless it has been started. */
    public static Application running() {
        Application application = running;
        if (application == null) {
            throw new IllegalStateException("the application has not been started");
        }
        return application;
    }

    static Application of(ServletContext context) {
        return (Application) context.getAttribute(ATTRIBUTE);
    }

    Packaging packaging() {
        return packaging;
    }

    String version() {
        return version;
    }

    /** Null where none are asked for. */
    ExtraCosts extraCosts() {
        return extraCosts;
    }

    /** Pays for a request; true where that changed the costs and has its answer. */
    boolean answers(HttpServletRequest request, HttpServletResponse response) throws IOException {
        return extraCosts != null && extraCosts.answers(request, response);
    }

    public Supplier supplier() {
        return supplier;
    }

    /** Looked up when first asked for: servers differ in when names of beans appear. */
    public Dealership dealership() {
        Dealership found = dealership;
        if (found == null) {
            found = packaging.operations();
            dealership = found;
        }
        return found;
    }
}
