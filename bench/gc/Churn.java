import java.util.ArrayList;
import java.util.List;

/** Allocates blocks of 4 to 7 KiB and keeps some of them; a large one now and then; a full collection at the end. */
public final class Churn {
    private static volatile Object sink;

    private Churn() {}

    public static void main(String[] args) throws InterruptedException {
        long blocks = Long.parseLong(args[0]);
        int live = Integer.parseInt(args[1]);
        List<byte[]> kept = new ArrayList<>();
        for (long n = 0; n < blocks; n++) {
            byte[] block = new byte[4096 + (int) (n % 7) * 512];
            if (n % 8 == 0 && kept.size() < live) {
                kept.add(block);
            } else if (n % 8 == 0) {
                kept.set((int) (n / 8 % live), block);
            }
            if (n % 20_000 == 0) {
                sink = new byte[3 << 20];
            }
            sink = block;
        }
        System.gc();
        Thread.sleep(200); // for cycles beside the application to end before the recorder does
    }
}
