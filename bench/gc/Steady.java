import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/**
 * Allocates in two threads between two full collections and keeps a part of it for a while; prints the JVM's own count of
 * the bytes that the two have allocated, and the uptimes (ms) between which they did.
 */
public final class Steady {
    private static volatile Object sink;
    private static final long[] BYTES = new long[2];

    private Steady() {}

    public static void main(String[] args) throws InterruptedException {
        long seconds = Long.parseLong(args[0]);
        long pace = Long.parseLong(args[1]) << 20; // bytes/s of each thread, at most
        int largest = args.length > 2 ? Integer.parseInt(args[2]) : 8192;
        var counts = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            int number = n;
            threads.add(new Thread(() -> {
                allocate(seconds, pace, largest);
                BYTES[number] = counts.getThreadAllocatedBytes(Thread.currentThread().getId());
            }));
        }
        System.gc();
        Thread.sleep(100);
        long began = ManagementFactory.getRuntimeMXBean().getUptime();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        long ended = ManagementFactory.getRuntimeMXBean().getUptime();
        System.gc();
        System.out.println("allocated " + (BYTES[0] + BYTES[1]) + " " + began + " " + ended);
        Thread.sleep(200);
    }

    private static void allocate(long seconds, long pace, int largest) {
        List<byte[]> kept = new ArrayList<>();
        long began = System.nanoTime();
        long bytes = 0;
        for (int n = 0; System.nanoTime() - began < seconds * 1_000_000_000L; n++) {
            byte[] block = new byte[largest / 2 + n % 7 * largest / 14];
            bytes += block.length;
            if (n % 16 == 0 && kept.size() < (4 << 20) / largest) {
                kept.add(block);
            } else if (n % 16 == 0) {
                kept.set(n / 16 % kept.size(), block);
            }
            sink = block;
            if (bytes > pace / 500) {
                bytes = 0;
                try {
                    Thread.sleep(2);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        }
    }
}
