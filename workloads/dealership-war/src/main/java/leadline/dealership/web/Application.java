package leadline.dealership.web;

import jakarta.servlet.ServletContext;
import leadline.common.Queued;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DeliveryQueue;

/** What all servlets share. */
final class Application {
    private static final String ATTRIBUTE = Application.class.getName();

    private final Mode mode;
    private final Calls calls;
    private final Queued<DeliveryQueue> deliveries;
    private final String version;
    private final Supplier supplier;
    private volatile Dealership dealership;

    Application(Mode mode, Calls calls, Queued<DeliveryQueue> deliveries, String version) {
        this.mode = mode;
        this.calls = calls;
        this.deliveries = deliveries;
        this.version = version;
        this.supplier = Supplier.configured(() -> dealership);
    }

    void publish(ServletContext context) {
        context.setAttribute(ATTRIBUTE, this);
    }

    static Application of(ServletContext context) {
        return (Application) context.getAttribute(ATTRIBUTE);
    }

    Mode mode() {
        return mode;
    }

    Calls calls() {
        return calls;
    }

    Queued<DeliveryQueue> deliveries() {
        return deliveries;
    }

    String version() {
        return version;
    }

    Supplier supplier() {
        return supplier;
    }

    /** Looked up when first asked for: servers differ in when names of beans appear. */
    Dealership dealership() {
        Dealership found = dealership;
        if (found == null) {
            found = mode.find(calls);
            dealership = found;
        }
        return found;
    }
}
