package leadline.dealership.web;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.Delivery;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.WorkFigures;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkStatus;

/** What the plant is told, as objects for JSON. */
final class JsonViews {
    private JsonViews() {}

    /** Names and values in turn; keeps their order. */
    private static Map<String, Object> object(Object... pairs) {
        Map<String, Object> out = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            out.put((String) pairs[i], pairs[i + 1]);
        }
        return out;
    }

    static Map<String, Object> error(Failure failure) {
        return object("error", failure.message());
    }

    static Map<String, Object> work(WorkOrder work) {
        return object(
                "work",
                work.id(),
                "kind",
                word(work.kind()),
                "sales_order",
                work.salesOrder(),
                "line",
                work.line(),
                "model",
                work.model(),
                "quantity",
                work.quantity(),
                "stage",
                work.stage(),
                "state",
                word(work.state()),
                "completed",
                work.completed(),
                "command",
                work.command());
    }

    /** {@code ordered}: the purchase order made for missing parts, null without one. */
    static Map<String, Object> advance(Advance advance) {
        Map<String, Object> out = work(advance.work());
        out.put("ordered", advance.ordered() == null ? null : advance.ordered().id());
        return out;
    }

    static Map<String, Object> status(WorkStatus status) {
        Map<String, Object> out = work(status.work());
        out.put("waiting", status.waiting());
        out.put(
                "purchase_orders",
                status.purchaseOrders().stream().map(JsonViews::purchaseOrder).toList());
        return out;
    }

    static Map<String, Object> purchaseOrder(PurchaseOrder order) {
        List<Map<String, Object>> lines = order.lines().stream()
                .map(line -> object("part", line.part(), "quantity", line.quantity()))
                .toList();
        return object("order", order.id(), "status", word(order.status()), "lines", lines);
    }

    static Map<String, Object> delivery(Delivery delivery) {
        return object("order", delivery.purchaseOrder(), "repeated", delivery.repeated());
    }

    static Map<String, Object> figures(WorkFigures figures, Supplier supplier) {
        return object(
                "scheduled",
                figures.scheduled(),
                "running",
                figures.running(),
                "completed",
                figures.completed(),
                "cancelled",
                figures.cancelled(),
                "unclaimed",
                figures.unclaimed(),
                "sent",
                figures.sent(),
                "delivered",
                figures.delivered(),
                "repeated_deliveries",
                figures.repeatedDeliveries(),
                "orders_posted",
                supplier.posted(),
                "orders_not_posted",
                supplier.failed());
    }

    private static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }
}
