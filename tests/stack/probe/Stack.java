/** Prints how deep a thread's stack goes, fills some of the heap with garbage, and waits for its input to end. */
public final class Stack {
    private static int depth;
    private static byte[] last;

    private static void deeper() {
        depth++;
        deeper();
    }

    public static void main(String[] arguments) throws Exception {
        Thread thread = new Thread(() -> {
            try {
                deeper();
            } catch (StackOverflowError expected) {
                System.out.println(depth);
            }
        });
        thread.start();
        thread.join();
        for (int i = 0; i < 3000; i++) {
            last = new byte[64 * 1024];
        }
        System.out.println("ready");
        System.in.read();
    }
}
