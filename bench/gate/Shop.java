import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.TreeMap;
import java.util.concurrent.Executors;

/** A small shop. Argument: port. A page of twenty items takes about a millisecond of CPU. */
public final class Shop {
    public static void main(String[] arguments) throws Exception {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 64);
        server.createContext("/items/", exchange -> {
            var prices = new TreeMap<String, Long>();
            for (int item = 0; item < 2000; item++) {
                prices.merge("item-" + item % 20, (long) item * item, Long::sum);
            }
            byte[] page = prices.toString().getBytes();
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
    }
}
