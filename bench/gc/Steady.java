import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/**
 * Allocates at a steady pace in two threads and keeps a part of it for a while; prints the JVM's own count of the bytes
 * that the two have allocated: uptime in ms and bytes, several times a second.
 */
public final class Steady {
    private static volatile Object sink;

    private Steady() {}

    public static void main(String[] args) throws InterruptedException {
        long seconds = Long.parseLong(args[0]);
        long pace = Long.parseLong(args[1]) << 20; // bytes/s of each thread
        int largest = args.length > 2 ? Integer.parseInt(args[2]) : 8192;
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            Thread thread = new Thread(() -> allocate(seconds, pace, largest));
            threads.add(thread);
            thread.start();
        }
        var counts = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long[] ids = threads.stream().mapToLong(Thread::getId).toArray();
        while (threads.get(0).isAlive() && threads.get(1).isAlive()) {
            long before = ManagementFactory.getRuntimeMXBean().getUptime();
            long bytes = counts.getThreadAllocatedBytes(ids[0]) + counts.getThreadAllocatedBytes(ids[1]);
            long after = ManagementFactory.getRuntimeMXBean().getUptime();
            if (bytes > 0 && after - before < 5) {
                System.out.println("allocated " + after + " " + bytes);
            }
            Thread.sleep(50);
        }
    }

    private static void allocate(long seconds, long pace, int largest) {
        List<byte[]> kept = new ArrayList<>();
        long began = System.nanoTime();
        long bytes = 0;
        for (int n = 0; System.nanoTime() - began < seconds * 1_000_000_000L; n++) {
            byte[] block = new byte[largest / 2 + n % 7 * largest / 14];
            bytes += block.length + 16;
            if (n % 16 == 0 && kept.size() < (4 << 20) / largest) {
                kept.add(block);
            } else if (n % 16 == 0) {
                kept.set(n / 16 % kept.size(), block);
            }
            sink = block;
            while (bytes > (System.nanoTime() - began) / 1e9 * pace) {
                try {
                    Thread.sleep(1);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        }
    }
}
