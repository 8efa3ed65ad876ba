package leadline.dealership.web;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.PurchaseStatus;
import leadline.dealership.domain.ScheduleCommand;
import leadline.dealership.domain.WorkKind;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkState;
import org.junit.jupiter.api.Test;

class PlantApiTest {
    private static final PurchaseOrder ORDER = new PurchaseOrder(
            9, 1, 7, PurchaseStatus.SENT, LocalDateTime.of(2026, 1, 2, 3, 4), null, List.of(new PartLine("P00001", 5)));

    private final List<PurchaseOrder> sent = new ArrayList<>();
    private final PlantApi api = new PlantApi(
            (Dealership) Proxy.newProxyInstance(
                    PlantApiTest.class.getClassLoader(),
                    new Class<?>[] {Dealership.class},
                    (proxy, method, arguments) -> fake(method.getName(), arguments)),
            sent::add);

    private static Object fake(String operation, Object[] arguments) {
        return switch (operation) {
            case "schedule" -> work(((ScheduleCommand) arguments[0]).quantity());
            case "claimLarge" -> Optional.empty();
            case "advance" -> new Advance(work(3), ORDER);
            case "requestParts" -> ORDER;
            case "cancelWork" -> throw DealershipException.conflict("it is closed");
            default -> throw new IllegalStateException(operation);
        };
    }

    private static WorkOrder work(int quantity) {
        return new WorkOrder(
                7,
                WorkKind.PLANNED,
                null,
                null,
                "M0001",
                quantity,
                1,
                WorkState.RUNNING,
                0,
                null,
                ORDER.sentAt(),
                null);
    }

    private PlantApi.Reply reply(String method, String path, String body) throws IOException {
        return api.respond(method, path, new ByteArrayInputStream(body.getBytes(StandardCharsets.UTF_8)));
    }

    private Object post(String path, String body, String name) throws IOException {
        return reply("POST", path, body).value().get(name);
    }

    @Test
    void requestsBecomeOperations() throws IOException {
        assertEquals(4, post("/work", "{\"model\": \"M0001\", \"quantity\": 4}", "quantity"));
        PlantApi.Reply nothing = reply("POST", "/work/claim", "");
        assertEquals(204, nothing.status());
        assertEquals(0, nothing.body().length);
        assertEquals(9L, post("/work/7/advance", "", "ordered"));
        String lines = "{\"lines\": [{\"part\": \"P00001\", \"quantity\": 5}]}";
        assertEquals(9L, post("/work/7/parts", lines, "order"));
        assertEquals(List.of(ORDER, ORDER), sent);
    }

    @Test
    void whatCannotBeDoneHasAStatus() throws IOException {
        assertEquals(409, reply("POST", "/work/7/cancel", "").status());
        assertEquals(400, reply("POST", "/work", "{\"quantity\": 4}").status());
        assertEquals(400, reply("POST", "/work", "no object").status());
        assertEquals(404, reply("GET", "/elsewhere", "").status());
        assertEquals("POST", reply("GET", "/work/7/advance", "").allow());
        assertEquals("GET, HEAD", reply("PUT", "/work/7", "").allow());
        assertEquals(405, reply("PUT", "/work/7", "").status());
        assertEquals(500, reply("GET", "/work/7", "").status());
    }
}
