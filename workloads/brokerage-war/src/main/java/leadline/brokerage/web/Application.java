package leadline.brokerage.web;

import jakarta.servlet.ServletContext;
import java.util.List;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.OrderQueue;
import leadline.common.ExtraCosts;
import leadline.common.Queued;

/** What all servlets share. */
final class Application {
    private static final String ATTRIBUTE = Application.class.getName();
    private static final List<String> SYMBOL = List.of("S00001");

    private final Mode mode;
    private final Calls calls;
    private final Queued<OrderQueue> orders;
    private final String version;
    private final SummaryCache summary;
    private final ExtraCosts extraCosts;
    private volatile Brokerage brokerage;

    Application(Mode mode, Calls calls, Queued<OrderQueue> orders, String version, long summarySeconds) {
        this.mode = mode;
        this.calls = calls;
        this.orders = orders;
        this.version = version;
        this.summary = new SummaryCache(() -> brokerage().marketSummary(), summarySeconds);
        this.extraCosts = ExtraCosts.configured(
                "brokerage", () -> brokerage().quotes(SYMBOL), () -> brokerage().accounts(), Replies::json);
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

    Queued<OrderQueue> orders() {
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
            found = mode.find(calls);
            if (orders.chosen()) {
                found = new QueueingBrokerage(found, orders.queue());
            }
            brokerage = found;
        }
        return found;
    }
}
