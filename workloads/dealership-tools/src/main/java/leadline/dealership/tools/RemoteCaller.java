package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Hashtable;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.LongAdder;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import leadline.dealership.domain.Dealership;
import leadline.dealership.remote.Caller;
import leadline.dealership.remote.RemoteDealership;
import leadline.dealership.web.PlantApi;

/**
 * The plant's agents by remote calls: takes their requests over HTTP from the load driver, which plans and measures
 * them, and does each by one call of the server's session bean. The bean is looked up when first called.
 */
final class RemoteCaller implements AutoCloseable {
    static {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        // An agent keeps its connection, however many there are and however long its cycle is.
        System.setProperty("sun.net.httpserver.maxIdleConnections", "100000");
        System.setProperty("sun.net.httpserver.idleInterval", "3600");
    }

    private final Hashtable<String, String> naming;
    private final String bean;
    private final ExecutorService requests = Executors.newCachedThreadPool();
    private final LongAdder calls = new LongAdder();
    private final HttpServer server;
    private volatile Dealership remote;

    /** Listens at once; port 0 takes a free one. */
    RemoteCaller(InetSocketAddress address, Map<String, String> naming, String bean) throws IOException {
        this.naming = new Hashtable<>(naming);
        this.bean = bean;
        this.server = HttpServer.create(address, 0);
        server.setExecutor(requests);
        server.createContext("/api", this::plant);
        server.createContext("/agents", this::agents);
        server.createContext(
                "/health", exchange -> send(exchange, 200, json(Map.of("status", "up", "calls", calls.sum()))));
        server.start();
    }

    InetSocketAddress address() {
        return server.getAddress();
    }

    private Dealership remote() throws NamingException {
        Dealership found = remote;
        if (found == null) {
            found = Caller.of(
                    bean.startsWith("corbaname:")
                            ? CorbaBean.find(bean)
                            : (RemoteDealership) new InitialContext(naming).lookup(bean));
            remote = found;
        }
        return found;
    }

    private void plant(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath().substring("/api".length());
        PlantApi.Reply reply;
        try {
            PlantApi api = new PlantApi(remote(), order -> {}); // the server has told the supplier
            reply = api.respond(exchange.getRequestMethod(), path, exchange.getRequestBody());
            calls.increment();
        } catch (NamingException | RuntimeException e) {
            reply = new PlantApi.Reply(503, Map.of("error", bean + " is not there: " + e), null);
        }
        send(exchange, reply.status(), reply.body());
    }

    /** 200 once the server has done a call, else 503 with the reason. */
    private void agents(HttpExchange exchange) throws IOException {
        int status = 200;
        Map<String, ?> told;
        try {
            remote().figures();
            told = Map.of("agents", "remote");
        } catch (NamingException | RuntimeException e) {
            status = 503;
            told = Map.of("error", e.toString());
        }
        send(exchange, status, json(told));
    }

    private static byte[] json(Map<String, ?> value) throws IOException {
        return JSON.std.asString(value).getBytes(StandardCharsets.UTF_8);
    }

    private static void send(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", PlantApi.TYPE);
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    @Override
    public void close() {
        server.stop(0);
        requests.shutdownNow();
    }
}
