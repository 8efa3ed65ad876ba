package leadline.brokerage.web;

import jakarta.servlet.ServletContext;
import leadline.brokerage.domain.Brokerage;

/** What all servlets share. */
final class Application {
    private static final String ATTRIBUTE = Application.class.getName();

    private final Mode mode;
    private final Calls calls;
    private final Orders orders;
    private final String version;
    private final SummaryCache summary;
    private final ExtraCosts extraCosts;
    private volatile Brokerage brokerage;

    Application(Mode mode, Calls calls, Orders orders, String version, long summarySeconds) {
        this.mode = mode;
        this.calls = calls;
        this.orders = orders;
        this.version = version;
        this.summary = new SummaryCache(() -> brokerage().marketSummary(), summarySeconds);
        this.extraCosts = ExtraCosts.configured(this);
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

    Orders orders() {
        return orders;
    }

    String version() {
        return version;
    }

    SummaryCache summary() {
        return summary;
    }

    /** Null where none are asked for. */
    ExtraCosts extraCosts() {
        return extraCosts;
    }

    /** Looked up when first asked for: servers differ in when names of beans appear. */
    Brokerage brokerage() {
        Brokerage found = brokerage;
        if (found == null) {
            found = orders.around(mode.find(calls));
            brokerage = found;
        }
        return found;
    }
}
