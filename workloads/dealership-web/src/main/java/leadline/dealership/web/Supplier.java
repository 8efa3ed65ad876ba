package leadline.dealership.web;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.PurchaseOrder;

/**
 * Posts purchase orders to the supplier at the system property {@value #PROPERTY}, after their commit, from a thread of
 * its own. What is lost on the way (no room in the queue, no answer, this server killed) the same thread posts again as
 * long as it is not delivered: the supplier takes an order once.
 */
public final class Supplier {
    static final String PROPERTY = "dealership.supplier";
    private static final Logger LOG = Logger.getLogger(Supplier.class.getName());
    private static final int MOST_WAITING = 10_000;
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final String url;
    private final java.util.function.Supplier<Dealership> dealership;
    private final BlockingQueue<PurchaseOrder> waiting = new ArrayBlockingQueue<>(MOST_WAITING);
    private final LongAdder posted = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private volatile boolean closed;
    private HttpClient client;
    private Thread worker;

    private Supplier(String url, java.util.function.Supplier<Dealership> dealership) {
        this.url = url;
        this.dealership = dealership;
    }

    /** {@code dealership} gives null until somebody asked for it. */
    static Supplier configured(java.util.function.Supplier<Dealership> dealership) {
        String url = System.getProperty(PROPERTY, "");
        if (!url.isEmpty() && !url.matches("http://[^/]+/?.*")) {
            throw new IllegalStateException(
                    "the system property " + PROPERTY + " is \"" + url + "\"; it must begin with http://");
        }
        return new Supplier(url.endsWith("/") ? url.substring(0, url.length() - 1) : url, dealership);
    }

    String address() {
        return url.isEmpty() ? "none" : url;
    }

    long posted() {
        return posted.sum();
    }

    long failed() {
        return failed.sum();
    }

    void start() {
        if (url.isEmpty()) {
            return;
        }
        client = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(PATIENCE)
                .build();
        worker = new Thread(this::work, "dealership-supplier");
        worker.setDaemon(true);
        worker.start();
    }

    void close() {
        closed = true;
        if (worker != null) {
            worker.interrupt();
        }
    }

    /** Takes a committed purchase order; null is none. Never waits. */
    public void order(PurchaseOrder order) {
        if (order != null && worker != null && !waiting.offer(order)) {
            failed.increment();
        }
    }

    private void work() {
        long sweep = System.nanoTime();
        while (!closed) {
            try {
                PurchaseOrder order = waiting.poll(1, TimeUnit.SECONDS);
                if (order != null) {
                    post(order);
                }
                if (System.nanoTime() - sweep >= PATIENCE.toNanos()) {
                    sweep = System.nanoTime();
                    again();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            } catch (RuntimeException e) {
                failed.increment();
                LOG.log(Level.WARNING, "purchase orders cannot be read: {0}", e.toString());
            }
        }
    }

    /** Those that should have been delivered by now. */
    private void again() throws InterruptedException {
        Dealership operations = dealership.get();
        if (operations == null) {
            return;
        }
        LocalDateTime before = LocalDateTime.now(ZoneOffset.UTC).minus(PATIENCE);
        for (PurchaseOrder order : operations.undelivered(before, Dealership.MOST_ROWS)) {
            post(order);
        }
    }

    private void post(PurchaseOrder order) throws InterruptedException {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/orders"))
                    .timeout(PATIENCE)
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofByteArray(body(order)))
                    .build();
            int status =
                    client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
            (status / 100 == 2 ? posted : failed).increment();
        } catch (IOException e) {
            failed.increment();
            LOG.log(Level.FINE, "the supplier does not answer: {0}", e.toString());
        }
    }

    private static byte[] body(PurchaseOrder order) throws IOException {
        List<Map<String, ?>> lines = order.lines().stream()
                .<Map<String, ?>>map(line -> Map.of("part", line.part(), "quantity", line.quantity()))
                .toList();
        return JSON.std.asBytes(Map.of("order", order.id(), "lines", lines));
    }
}
