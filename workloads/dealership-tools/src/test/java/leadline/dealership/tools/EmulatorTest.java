package leadline.dealership.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import leadline.dealership.check.SupplierCount;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EmulatorTest {
    private static final InetSocketAddress ANYWHERE = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    private static final double NEVER = 3_000;

    @TempDir
    private Path directory;

    private final HttpClient client = HttpClient.newHttpClient();
    private final BlockingQueue<String> taken = new LinkedBlockingQueue<>();
    private volatile int refusals;
    private HttpServer application;

    @BeforeEach
    void startApplication() throws IOException {
        application = HttpServer.create(ANYWHERE, 0);
        application.createContext("/dealership/api/deliveries", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            boolean refuse = refusals > 0;
            refusals -= refuse ? 1 : 0;
            taken.add(refuse ? "refused" : body);
            exchange.sendResponseHeaders(refuse ? 503 : 200, -1);
            exchange.close();
        });
        application.start();
    }

    @AfterEach
    void stopApplication() {
        application.stop(0);
    }

    private Emulator emulator(double delay, int attempts) throws IOException {
        URI target =
                URI.create("http://127.0.0.1:" + application.getAddress().getPort() + "/dealership/api/deliveries");
        return new Emulator(
                ANYWHERE, directory.resolve("journal"), new Emulator.Settings(target, delay, 1, attempts, 0.001));
    }

    private static String order(long id) {
        return "{\"order\":" + id + ",\"lines\":[{\"part\":\"P00001\",\"quantity\":3}]}";
    }

    private int post(Emulator emulator, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(
                        URI.create("http://127.0.0.1:" + emulator.address().getPort() + "/orders"))
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        return client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
    }

    private static void reached(Emulator emulator, long received, long delivered, long failed) throws Exception {
        Map<String, Long> wanted = Map.of(
                "received", received,
                "delivered", delivered,
                "pending", received - delivered - failed,
                "failed", failed);
        for (int i = 0; i < 1_000 && !emulator.counts().equals(wanted); i++) {
            Thread.sleep(10);
        }
        assertEquals(wanted, emulator.counts());
    }

    private String next() throws InterruptedException {
        return taken.poll(10, TimeUnit.SECONDS);
    }

    @Test
    void anOrderIsDeliveredAndCounted() throws Exception {
        try (Emulator emulator = emulator(0.001, 3)) {
            assertEquals(202, post(emulator, order(7)));
            assertEquals(order(7), next());
            reached(emulator, 1, 1, 0);
            String address = "http://127.0.0.1:" + emulator.address().getPort();
            assertEquals(new SupplierCount(1, 1, 0, 0), Documents.supplier(address));
            assertEquals(202, post(emulator, order(7)), "whoever asks again did not get it");
            assertEquals(order(7), next());
            reached(emulator, 1, 1, 0);
        }
    }

    @Test
    void aRefusedDeliveryIsTriedAgainAndAtLastGivenUp() throws Exception {
        try (Emulator emulator = emulator(0, 3)) {
            refusals = 2;
            post(emulator, order(1));
            reached(emulator, 1, 1, 0);
            refusals = 3;
            post(emulator, order(2));
            reached(emulator, 2, 1, 1);
            post(emulator, order(2));
            reached(emulator, 2, 2, 0);
        }
    }

    @Test
    void whatWasNotDeliveredOutlivesTheProcess() throws Exception {
        Path journal = directory.resolve("journal");
        Emulator killed = emulator(NEVER, 3);
        post(killed, order(1));
        post(killed, order(2));
        assertEquals(202, post(killed, order(2)));
        assertNull(taken.poll());
        killed.close();
        Files.writeString(journal, "D 1\nR {\"order\":3,\"li", StandardOpenOption.APPEND);
        try (Emulator next = emulator(0, 3)) {
            assertEquals(order(2), next());
            reached(next, 2, 2, 0);
        }
        assertTrue(Files.readString(journal).endsWith("D 1\nD 2\n"), Files.readString(journal));
    }

    @Test
    void whatIsNoOrderIsRefused() throws Exception {
        try (Emulator emulator = emulator(NEVER, 3)) {
            assertEquals(400, post(emulator, "{"));
            assertEquals(400, post(emulator, "{\"order\":1,\"lines\":[]}"));
            assertEquals(400, post(emulator, order(1).replace("3", "0")));
            assertEquals(413, post(emulator, " ".repeat(70_000)));
            assertEquals(202, post(emulator, order(1)));
            assertEquals(409, post(emulator, order(1).replace(":3}", ":4}")));
        }
    }

    @Test
    void aJournalOfSomethingElseIsNotTouched() throws Exception {
        Path journal = directory.resolve("journal");
        Files.writeString(journal, "something\n");
        IOException e = assertThrows(IOException.class, () -> emulator(NEVER, 3));
        assertTrue(e.getMessage().endsWith("journal:1: not a line of this journal: something"), e.getMessage());
        assertEquals("something\n", Files.readString(journal));
        Files.writeString(journal, "something");
        assertThrows(IOException.class, () -> emulator(NEVER, 3));
        assertEquals("something", Files.readString(journal));
    }
}
