import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

/** A small server that loses one thing on purpose, so much of it a second: what a soak has to find. */
class Leaky {
    private static final List<Object> LOST = new ArrayList<>();
    private static final CountDownLatch NEVER = new CountDownLatch(1);

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        String kind = System.getProperty("leak", "none");
        double perSecond = Double.parseDouble(System.getProperty("rate", "0"));
        long after = (long) (1000 * Double.parseDouble(System.getProperty("after", "0")));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 50);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            byte[] page = new byte[2000]; // garbage, as every request makes some
            try (InputStream body = exchange.getRequestBody()) {
                body.readAllBytes();
            }
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
        lose(kind, perSecond, after);
    }

    private static void lose(String kind, double perSecond, long after) throws Exception {
        Thread.sleep(after);
        ServerSocket listener = new ServerSocket(0, 50_000, InetAddress.getLoopbackAddress());
        Path file = Files.createTempFile(Path.of("."), "lost", ".dat");
        long begun = System.nanoTime();
        long done = 0;
        while (true) {
            long due = (long) (perSecond * (System.nanoTime() - begun) / 1e9);
            for (; done < due; done++) {
                for (String each : kind.split(",")) {
                    one(each, listener, file);
                }
            }
            Thread.sleep(20);
        }
    }

    /** Bytes for heap, native and disk are 64 KiB each. */
    private static void one(String kind, ServerSocket listener, Path file) throws IOException {
        switch (kind) {
            case "heap" -> LOST.add(new byte[64 << 10]);
            case "native" -> LOST.add(touched());
            case "handles" -> LOST.add(new RandomAccessFile(file.toFile(), "r"));
            case "connections" -> LOST.add(List.of(
                    new Socket(InetAddress.getLoopbackAddress(), listener.getLocalPort()), listener.accept()));
            case "threads" -> {
                Thread thread = new Thread(null, Leaky::waiting, "lost", 128 << 10);
                thread.setDaemon(true);
                thread.start();
            }
            case "disk" -> Files.write(file, new byte[64 << 10], StandardOpenOption.APPEND);
            default -> { }
        }
    }

    private static ByteBuffer touched() {
        ByteBuffer found = ByteBuffer.allocateDirect(64 << 10);
        for (int at = 0; at < found.capacity(); at += 4096) {
            found.put(at, (byte) 1);
        }
        return found;
    }

    private static void waiting() {
        try {
            NEVER.await();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
