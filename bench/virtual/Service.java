import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * An HTTP service with its closed-loop clients. Arguments: directory, rounds of the handler's loop, bytes of a response,
 * clients, requests of the warm-up. It writes `warm`, waits for `go` (extra rounds, instructions of a system-call filter
 * or 0, requests) and writes `out`: the nanoseconds of all requests together, then of each.
 */
public final class Service {
    private static volatile int extra;
    private static volatile long sink;
    private static int rounds;
    private static byte[] body;
    private static URL url;

    /** Every thread's system calls run a filter of so many instructions from now on; 0 when the kernel took it. */
    private static native int filter(int instructions);

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        rounds = Integer.parseInt(arguments[1]);
        body = new byte[Integer.parseInt(arguments[2])];
        int clients = Integer.parseInt(arguments[3]);
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 16);
        server.createContext("/", Service::handle);
        server.setExecutor(Executors.newFixedThreadPool(clients, Service::daemon));
        server.start();
        url = new URL("http://127.0.0.1:" + server.getAddress().getPort() + "/");
        load(clients, Integer.parseInt(arguments[4]));
        write(directory, "warm", "warm\n");
        Path go = directory.resolve("go");
        while (!Files.exists(go)) {
            Thread.sleep(5);
        }
        String[] words = Files.readString(go).trim().split(" ");
        extra = Integer.parseInt(words[0]);
        int instructions = Integer.parseInt(words[1]);
        if (instructions > 0) {
            System.load(words[3]);
            if (filter(instructions) != 0) {
                throw new IllegalStateException("the kernel refuses the filter");
            }
        }
        int requests = Integer.parseInt(words[2]);
        load(clients, clients * 20);
        long begin = System.nanoTime();
        long[] nanos = load(clients, requests);
        long all = System.nanoTime() - begin;
        String each = LongStream.of(nanos).mapToObj(Long::toString).collect(Collectors.joining("\n"));
        write(directory, "out", all + "\n" + each + "\n");
        System.exit(0);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private static void write(Path directory, String name, String text) throws IOException {
        Path part = directory.resolve(name + ".part");
        Files.writeString(part, text);
        Files.move(part, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }

    private static void handle(HttpExchange exchange) throws IOException {
        long sum = loop(rounds);
        if (extra > 0) {
            sum += loop(extra); // the planted change
        }
        byte[] response = body.clone();
        sink = sum;
        try (exchange) {
            exchange.sendResponseHeaders(200, response.length);
            exchange.getResponseBody().write(response);
        }
    }

    private static long loop(int rounds) {
        long state = 88172645463325252L;
        for (int round = 0; round < rounds; round++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        return state;
    }

    private static long[] load(int clients, int requests) throws Exception {
        long[] nanos = new long[requests / clients * clients];
        Thread[] threads = new Thread[clients];
        Exception[] failed = new Exception[1];
        for (int client = 0; client < clients; client++) {
            int first = client;
            threads[client] = new Thread(() -> {
                try {
                    for (int place = first; place < nanos.length; place += clients) {
                        long begin = System.nanoTime();
                        request();
                        nanos[place] = System.nanoTime() - begin;
                    }
                } catch (IOException error) {
                    failed[0] = error;
                }
            });
            threads[client].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failed[0] != null) {
            throw failed[0];
        }
        return nanos;
    }

    private static void request() throws IOException {
        HttpURLConnection connection = (HttpURLConnection) url.openConnection();
        try (InputStream in = connection.getInputStream()) {
            int length = in.readAllBytes().length;
            if (length != body.length) {
                throw new IOException("a response of " + length + " bytes");
            }
        }
    }
}
