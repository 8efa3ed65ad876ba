import java.lang.management.ManagementFactory;
import java.lang.ref.SoftReference;
import java.lang.ref.WeakReference;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.Deflater;

/** Does one thing to the collector, the first argument; the second is how long, s, or how large. */
public final class Planted {
    private static volatile Object sink;

    private Planted() {}

    public static void main(String[] args) throws Exception {
        long amount = args.length > 1 ? Long.parseLong(args[1]) : 3;
        switch (args[0]) {
            case "heap" -> heap(amount);
            case "metaspace" -> metaspace();
            case "direct" -> direct();
            case "threads" -> threads();
            case "explicit" -> explicit(amount);
            case "humongous" -> humongous(amount);
            case "burst" -> burst(amount);
            case "cache" -> cache(amount, 0);
            case "steady" -> cache(amount, 2);
            case "pinned" -> pinned(amount);
            case "dumps" -> dumps(amount);
            case "references" -> references(amount);
            case "classes" -> classes(amount);
            case "loop" -> loop(amount);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static long after(long seconds) {
        return System.nanoTime() + seconds * 1_000_000_000L;
    }

    /** Keeps a block of each {@code every} until nothing is left. */
    private static void heap(long every) {
        List<byte[]> kept = new ArrayList<>();
        for (long n = 0; ; n++) {
            byte[] block = new byte[4096 + (int) (n % 7) * 512];
            if (n % every == 0) {
                kept.add(block);
            }
            sink = block;
        }
    }

    /** A class loader of its own for each class, none of which ends. */
    private static void metaspace() throws Exception {
        List<Object> kept = new ArrayList<>();
        while (true) {
            kept.add(proxy());
        }
    }

    private static void classes(long seconds) throws Exception {
        for (long end = after(seconds); System.nanoTime() < end; ) {
            sink = proxy();
        }
    }

    private static Object proxy() throws Exception {
        var own = new ClassLoader(null) {
            @Override
            protected Class<?> findClass(String name) throws ClassNotFoundException {
                try (var in = Planted.class.getResourceAsStream("/" + name + ".class")) {
                    if (in == null) {
                        throw new ClassNotFoundException(name);
                    }
                    byte[] bytes = in.readAllBytes();
                    return defineClass(name, bytes, 0, bytes.length);
                } catch (java.io.IOException error) {
                    throw new ClassNotFoundException(name, error);
                }
            }
        };
        Class<?> type = Class.forName("Planted$Shape", true, own);
        InvocationHandler none = (proxy, method, arguments) -> null;
        return Proxy.newProxyInstance(own, new Class<?>[] {type}, none);
    }

    interface Shape {
        void draw();
    }

    private static void direct() {
        List<ByteBuffer> kept = new ArrayList<>();
        while (true) {
            kept.add(ByteBuffer.allocateDirect(1 << 20));
            sink = new byte[100_000];
        }
    }

    private static void threads() {
        while (true) {
            Thread thread = new Thread(LockSupport::park);
            thread.setDaemon(true);
            thread.start();
            sink = new byte[1 << 20];
        }
    }

    private static void explicit(long seconds) throws InterruptedException {
        for (long end = after(seconds); System.nanoTime() < end; Thread.sleep(300)) {
            churn(20);
            System.gc();
        }
    }

    private static void churn(int mebibytes) {
        for (int n = 0; n < mebibytes * 128; n++) {
            sink = new byte[8192];
        }
    }

    /** Short-lived arrays of 1.5 MiB. */
    private static void humongous(long seconds) throws InterruptedException {
        for (long end = after(seconds); System.nanoTime() < end; Thread.sleep(2)) {
            sink = new byte[3 << 19];
            churn(1);
        }
    }

    /** Keeps all of the young generation for a while, so that there is no room to copy it to. */
    private static void burst(long mebibytes) throws InterruptedException {
        for (int turn = 0; turn < 12; turn++) {
            List<byte[]> kept = new ArrayList<>();
            for (long n = 0; n < mebibytes * 128; n++) {
                kept.add(new byte[8192]);
            }
            sink = kept;
            churn(50);
        }
    }

    /** A cache of 40 MiB that is replaced again and again. */
    private static void cache(long seconds, long rest) throws InterruptedException {
        byte[][] kept = new byte[5120][];
        int n = 0;
        for (long end = after(seconds); System.nanoTime() < end; n++) {
            sink = kept[(int) (n * 2654435761L >>> 7 & 0x7fffffff) % 5120] = new byte[8192];
            if (rest > 0 && n % 20 == 0) {
                Thread.sleep(rest);
            }
        }
    }

    /** Native code that holds arrays while others allocate. */
    private static void pinned(long seconds) throws InterruptedException {
        long end = after(seconds);
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            threads.add(new Thread(() -> {
                byte[] in = new byte[400_000];
                byte[] out = new byte[400_000];
                new java.util.Random(1).nextBytes(in);
                while (System.nanoTime() < end) {
                    Deflater deflater = new Deflater(9);
                    deflater.setInput(in);
                    deflater.finish();
                    deflater.deflate(out);
                    deflater.end();
                }
            }));
        }
        threads.forEach(Thread::start);
        while (System.nanoTime() < end) {
            churn(4);
        }
    }

    /** A dump of 1,500 threads again and again: stops that collect nothing. */
    private static void dumps(long seconds) throws InterruptedException {
        for (int n = 0; n < 1500; n++) {
            Thread thread = new Thread(() -> deep(60));
            thread.setDaemon(true);
            thread.start();
        }
        var bean = ManagementFactory.getThreadMXBean();
        for (long end = after(seconds); System.nanoTime() < end; Thread.sleep(20)) {
            sink = bean.dumpAllThreads(true, true);
        }
    }

    private static void deep(int left) {
        if (left > 0) {
            deep(left - 1);
        } else {
            LockSupport.park();
        }
    }

    private static void references(long seconds) {
        List<Object> kept = new ArrayList<>();
        for (long end = after(seconds); System.nanoTime() < end; ) {
            for (int n = 0; n < 400_000; n++) {
                kept.add(n % 2 == 0 ? new WeakReference<>(new Object()) : new SoftReference<>(new Object()));
            }
            churn(40);
            if (kept.size() > 2_000_000) {
                kept.clear();
            }
        }
    }

    /** A counted loop without a poll beside one that allocates. */
    private static void loop(long seconds) {
        long end = after(seconds);
        Thread busy = new Thread(() -> {
            int[] values = new int[4096];
            while (System.nanoTime() < end) {
                for (int n = 0; n < 400_000_000; n++) {
                    values[n & 4095] += values[(n * 31) & 4095] + n;
                }
                sink = values;
            }
        });
        busy.start();
        while (System.nanoTime() < end) {
            churn(8);
        }
    }
}
