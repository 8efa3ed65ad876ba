import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.SynchronousQueue;

/** Work whose cost depends on the kernel: loopback TCP, thread switches, system calls, fresh memory. Prints milliseconds. */
public final class Measure {
    private static final int ROUNDS = 2; // the first one warms

    interface Work {
        long run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        int scale = Integer.parseInt(arguments[0]);
        for (int round = 1; round <= ROUNDS; round++) {
            boolean last = round == ROUNDS;
            measure(last, "loopback_tcp", () -> loopback(2 * scale));
            measure(last, "thread_switches", () -> switches(4 * scale));
            measure(last, "system_calls", () -> systemCalls(60 * scale));
            measure(last, "fresh_memory", () -> freshMemory(scale));
        }
    }

    private static void measure(boolean told, String name, Work work) throws Exception {
        long begin = System.nanoTime();
        long sum = work.run();
        double millis = (System.nanoTime() - begin) / 1e6;
        if (told) {
            System.out.println(name + " " + millis + " " + sum);
        }
    }

    private static long loopback(int turns) throws Exception {
        byte[] data = new byte[512];
        try (ServerSocket listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread server = new Thread(() -> echo(listening));
            server.start();
            long sum = 0;
            try (Socket socket = new Socket(listening.getInetAddress(), listening.getLocalPort())) {
                socket.setTcpNoDelay(true);
                InputStream in = socket.getInputStream();
                OutputStream out = socket.getOutputStream();
                for (int turn = 0; turn < turns; turn++) {
                    out.write(data);
                    sum += in.readNBytes(data, 0, data.length);
                }
            }
            server.join();
            return sum;
        }
    }

    private static void echo(ServerSocket listening) {
        byte[] data = new byte[512];
        try (Socket socket = listening.accept()) {
            socket.setTcpNoDelay(true);
            InputStream in = socket.getInputStream();
            OutputStream out = socket.getOutputStream();
            while (in.readNBytes(data, 0, data.length) == data.length) {
                out.write(data);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static long switches(int turns) throws Exception {
        SynchronousQueue<Integer> there = new SynchronousQueue<>();
        SynchronousQueue<Integer> back = new SynchronousQueue<>();
        Thread other = new Thread(() -> {
            try {
                for (int turn = 0; turn < turns; turn++) {
                    back.put(there.take() + 1);
                }
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        other.start();
        long sum = 0;
        for (int turn = 0; turn < turns; turn++) {
            there.put(turn);
            sum += back.take();
        }
        other.join();
        return sum;
    }

    private static long systemCalls(int calls) throws IOException {
        long sum = 0;
        try (FileInputStream zero = new FileInputStream("/dev/zero")) {
            for (int call = 0; call < calls; call++) {
                sum += zero.read() + 1;
            }
        }
        return sum;
    }

    /** Threads are made and end: their stacks are memory that the kernel gives and takes back. */
    private static long freshMemory(int scale) throws Exception {
        long sum = 0;
        for (int part = 0; part < scale / 10; part++) {
            long[] touched = new long[1];
            Thread thread = new Thread(() -> touched[0] = deep(64) + new byte[1 << 16].length);
            thread.start();
            thread.join();
            sum += touched[0];
        }
        return sum;
    }

    private static long deep(int depth) {
        return depth == 0 ? 0 : 1 + deep(depth - 1);
    }
}
