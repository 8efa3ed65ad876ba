package leadline.dealership.web;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.PurchaseOrder;

/**
 * The operations of the plant as JSON, whatever takes the requests: a servlet, or a program that does them by remote
 * calls.
 */
public final class PlantApi {
    public static final String TYPE = "application/json;charset=UTF-8";
    // By default jackson-jr leaves out what is null: then an answer's names depend on its values.
    private static final JSON WITH_NULLS = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);
    private static final int NOTHING_TO_CLAIM = 204;
    private static final Pattern WORK = Pattern.compile("/work/([0-9]{1,18})(?:/(advance|complete|cancel|parts))?");

    private final Dealership dealership;
    private final Consumer<PurchaseOrder> ordered;

    /**
     * A response.
     *
     * @param value of the JSON; null without a body
     * @param allow methods of the address where another one was asked for, else null
     */
    public record Reply(int status, Map<String, ?> value, String allow) {
        private static Reply ok(Map<String, ?> value) {
            return new Reply(200, value, null);
        }

        static Reply failed(Failure failure) {
            return new Reply(failure.status(), JsonViews.error(failure), null);
        }

        static Reply otherMethod(String allow) {
            return new Reply(405, JsonViews.error(new Failure(405, "this address takes " + allow + " only")), allow);
        }

        /** Of its value in UTF-8; what is null is stated. */
        public byte[] body() throws IOException {
            return value == null ? new byte[0] : json(value);
        }
    }

    /** {@code ordered} takes committed purchase orders; null is none. */
    public PlantApi(Dealership dealership, Consumer<PurchaseOrder> ordered) {
        this.dealership = dealership;
        this.ordered = ordered;
    }

    static byte[] json(Map<String, ?> value) throws IOException {
        return WITH_NULLS.asBytes(value);
    }

    /** Does what a request below {@code /api} asks for; failures are responses, too. */
    public Reply respond(String method, String path, InputStream body) throws IOException {
        try {
            Matcher work = WORK.matcher(path);
            boolean numbered = work.matches();
            boolean write = path.equals("/work") || path.equals("/work/claim") || (numbered && work.group(2) != null);
            if (!numbered && !write) {
                return Reply.failed(new Failure(404, "there is no such address"));
            }
            if (!method.equals(write ? "POST" : "GET")) {
                return Reply.otherMethod(write ? "POST" : "GET, HEAD");
            }
            if (!numbered) {
                return path.equals("/work") ? schedule(body) : claim();
            }
            long id = Long.parseLong(work.group(1));
            return Reply.ok(write ? change(id, work.group(2), body) : JsonViews.status(dealership.status(id)));
        } catch (RuntimeException e) {
            return Reply.failed(Failure.of(e, method + " " + path));
        }
    }

    private Reply schedule(InputStream body) throws IOException {
        return Reply.ok(JsonViews.work(dealership.schedule(JsonBody.of(body).schedule())));
    }

    private Reply claim() {
        Optional<Map<String, Object>> claimed = dealership.claimLarge().map(JsonViews::work);
        return claimed.isEmpty() ? new Reply(NOTHING_TO_CLAIM, null, null) : Reply.ok(claimed.get());
    }

    private Map<String, Object> change(long id, String operation, InputStream body) throws IOException {
        switch (operation) {
            case "advance" -> {
                Advance advance = dealership.advance(id);
                ordered.accept(advance.ordered());
                return JsonViews.advance(advance);
            }
            case "complete" -> {
                return JsonViews.work(dealership.complete(id, JsonBody.of(body).quantity()));
            }
            case "cancel" -> {
                return JsonViews.work(dealership.cancelWork(id));
            }
            case "parts" -> {
                PurchaseOrder order =
                        dealership.requestParts(id, JsonBody.of(body).lines());
                ordered.accept(order);
                return JsonViews.purchaseOrder(order);
            }
            default -> throw DealershipException.notFound("there is no such operation");
        }
    }
}
