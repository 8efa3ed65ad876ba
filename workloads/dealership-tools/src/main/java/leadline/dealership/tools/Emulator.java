package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * The supplier of parts. Each order is delivered after a random delay that depends on the seed and its number only; a
 * delivery that is not acknowledged is tried again, at last given up. An order that comes again is delivered again
 * unless its delivery is still to come: whoever takes deliveries in has to know them.
 */
final class Emulator implements AutoCloseable {
    /**
     * How it delivers.
     *
     * @param delay mean, seconds; negative exponential, cut at five times the mean
     * @param attempts of one delivery before it is given up
     * @param pause seconds before the second attempt; doubled for each further one, up to twenty times as long
     */
    record Settings(URI deliverTo, double delay, long seed, int attempts, double pause) {}

    private enum State {
        PENDING,
        DELIVERED,
        FAILED
    }

    static {
        // A response is two writes, and its client waits 40 ms for the second one unless it is sent at once.
        System.setProperty("sun.net.httpserver.nodelay", "true");
    }

    private static final int LONGEST_BODY = 64 * 1024;
    private static final int MOST_ORDERS = 1_000_000;
    private static final int THREADS = 8;
    private static final int LONGEST_PAUSE = 20;
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final Settings settings;
    private final Journal journal;
    /** What is still to be delivered. */
    private final Map<Long, Order> orders = new HashMap<>();

    /** Hashes of all orders received: a million of them must fit into a small heap. */
    private final Map<Long, Integer> hashes = new HashMap<>();

    private final Map<Long, State> states = new HashMap<>();
    private final Map<State, Long> counts = new HashMap<>();
    private final ExecutorService requests = Executors.newFixedThreadPool(THREADS);
    private final ScheduledExecutorService deliveries = Executors.newScheduledThreadPool(THREADS);
    private final HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(PATIENCE)
            .build();
    private final HttpServer server;

    /** Listens at once; port 0 takes a free one. What the journal holds and was not delivered is delivered. */
    Emulator(InetSocketAddress address, Path journal, Settings settings) throws IOException {
        this.settings = settings;
        this.journal = new Journal(journal);
        for (Journal.Entry entry : this.journal.read()) {
            if (entry.what() == 'R') {
                state(entry.order(), State.PENDING);
            } else if (orders.containsKey(entry.id())) {
                state(orders.get(entry.id()), entry.what() == 'D' ? State.DELIVERED : State.FAILED);
            } else {
                throw new IOException(journal + ": order " + entry.id() + " was closed and is not open");
            }
        }
        this.server = HttpServer.create(address, 0);
        server.setExecutor(requests);
        server.createContext("/orders", this::orders);
        String health = JSON.std.asString(Map.of("status", "up", "delay", settings.delay()));
        server.createContext("/health", exchange -> respond(exchange, 200, health));
        synchronized (this) {
            orders.values().forEach(order -> schedule(order, 1, delay(order.id())));
        }
        server.start();
    }

    InetSocketAddress address() {
        return server.getAddress();
    }

    private synchronized void state(Order order, State now) {
        hashes.put(order.id(), order.hashCode());
        if (now == State.PENDING) {
            orders.put(order.id(), order);
        } else {
            orders.remove(order.id());
        }
        State before = states.put(order.id(), now);
        if (before != null) {
            counts.merge(before, -1L, Long::sum);
        }
        counts.merge(now, 1L, Long::sum);
    }

    /** Seconds. */
    private double delay(long id) {
        double uniform = new SplittableRandom(settings.seed() * 0x9E3779B97F4A7C15L + id).nextDouble();
        return settings.delay() * Math.min(5, -Math.log(1 - uniform));
    }

    private void orders(HttpExchange exchange) throws IOException {
        if (exchange.getRequestMethod().equals("GET")) {
            respond(exchange, 200, JSON.std.asString(counts()));
            return;
        }
        if (!exchange.getRequestMethod().equals("POST")) {
            respond(exchange, 405, error("orders are posted"));
            return;
        }
        byte[] body = exchange.getRequestBody().readNBytes(LONGEST_BODY + 1);
        if (body.length > LONGEST_BODY) {
            respond(exchange, 413, error("an order has at most " + LONGEST_BODY + " bytes"));
            return;
        }
        Order order;
        try {
            order = Order.parse(body);
        } catch (IOException e) {
            respond(exchange, 400, error(e.getMessage()));
            return;
        }
        int status = accept(order);
        respond(exchange, status, status == 202 ? "{}" : error("order " + order.id() + " was refused"));
    }

    synchronized Map<String, Long> counts() {
        Map<String, Long> out = new LinkedHashMap<>();
        out.put("received", (long) hashes.size());
        out.put("delivered", counts.getOrDefault(State.DELIVERED, 0L));
        out.put("pending", counts.getOrDefault(State.PENDING, 0L));
        out.put("failed", counts.getOrDefault(State.FAILED, 0L));
        return out;
    }

    /** Status of the response: 202; 409 for an order known with other lines; 503 when there are too many. */
    private synchronized int accept(Order order) throws IOException {
        Integer known = hashes.get(order.id());
        if (known != null && known != order.hashCode()) {
            return 409;
        }
        if (known == null && hashes.size() >= MOST_ORDERS) {
            return 503;
        }
        State state = states.get(order.id());
        if (state == State.PENDING) {
            return 202;
        }
        if (state != State.DELIVERED) {
            journal.received(order);
            state(order, State.PENDING);
        }
        schedule(order, 1, state == null ? delay(order.id()) : 0);
        return 202;
    }

    private void schedule(Order order, int attempt, double seconds) {
        try {
            deliveries.schedule(() -> deliver(order, attempt), (long) (seconds * 1e6), TimeUnit.MICROSECONDS);
        } catch (RejectedExecutionException e) {
            // Closing: the journal holds the order.
        }
    }

    private void deliver(Order order, int attempt) {
        try {
            if (acknowledged(order)) {
                closed(order, State.DELIVERED);
            } else if (attempt >= settings.attempts()) {
                closed(order, State.FAILED);
            } else {
                schedule(order, attempt + 1, settings.pause() * Math.min(LONGEST_PAUSE, Math.pow(2, attempt - 1)));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IOException e) {
            System.err.println("emulate: order " + order.id() + " could not be written to the journal: " + e);
        }
    }

    private boolean acknowledged(Order order) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(settings.deliverTo())
                .timeout(PATIENCE)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(order.json()))
                .build();
        try {
            return client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode() / 100 == 2;
        } catch (IOException e) {
            return false;
        }
    }

    private synchronized void closed(Order order, State state) throws IOException {
        if (states.get(order.id()) != State.PENDING) {
            return;
        }
        if (state == State.DELIVERED) {
            journal.delivered(order.id());
        } else {
            journal.failed(order.id());
        }
        state(order, state);
    }

    private static String error(String message) throws IOException {
        return JSON.std.asString(Map.of("error", message));
    }

    private static void respond(HttpExchange exchange, int status, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    /** Nothing is delivered any more; the journal holds what is left. */
    @Override
    public void close() throws IOException {
        server.stop(0);
        requests.shutdownNow();
        deliveries.shutdownNow();
        try {
            deliveries.awaitTermination(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        journal.close();
    }
}
