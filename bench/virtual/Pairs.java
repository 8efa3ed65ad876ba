import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.Pipe;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.SynchronousQueue;
import java.util.regex.Pattern;
import java.util.zip.Adler32;
import java.util.zip.CRC32;

/**
 * Pairs of ways to do a thing, timed in turn. Arguments: a directory for files, rounds. Prints for each pair its name and
 * the median nanoseconds of one operation of the first way and of the second.
 */
public final class Pairs {
    private static volatile long sink;
    private static Path directory;

    private interface Way {
        long run(int operations) throws Exception;
    }

    private record Pair(String name, int operations, Way first, Way second) {}

    private static final List<Pair> PAIRS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]);
        int rounds = Integer.parseInt(arguments[1]);
        files();
        talking();
        memory();
        computing();
        for (Pair pair : PAIRS) {
            double[] first = new double[rounds];
            double[] second = new double[rounds];
            pair.first.run(pair.operations);
            pair.second.run(pair.operations);
            for (int round = 0; round < rounds; round++) {
                first[round] = time(pair.first, pair.operations);
                second[round] = time(pair.second, pair.operations);
            }
            System.out.printf("%s %.3f %.3f%n", pair.name, median(first), median(second));
        }
        System.exit(0);
    }

    private static double time(Way way, int operations) throws Exception {
        long begin = System.nanoTime();
        sink += way.run(operations);
        return (double) (System.nanoTime() - begin) / operations;
    }

    private static double median(double[] values) {
        Arrays.sort(values);
        return (values[(values.length - 1) / 2] + values[values.length / 2]) / 2;
    }

    private static void pair(String name, int operations, Way first, Way second) {
        PAIRS.add(new Pair(name, operations, first, second));
    }

    // System calls on files.

    private static void files() throws Exception {
        InputStream zero = new FileInputStream("/dev/zero");
        OutputStream none = new FileOutputStream("/dev/null");
        byte[] large = new byte[65536];
        pair("read_1_or_8192_bytes", 1000, n -> read(zero, large, 1, n), n -> read(zero, large, 8192, n));
        pair("write_none_1_or_8192_bytes", 1000, n -> write(none, large, 1, n), n -> write(none, large, 8192, n));
        Path there = Files.write(directory.resolve("there"), large);
        Path absent = directory.resolve("absent");
        pair("stat_absent_or_there", 1000, n -> exists(absent, n), n -> exists(there, n));
        pair("open_and_close_or_stat", 300, n -> exists(there, n), n -> opened(there, n));
        byte[] page = new byte[16384];
        byte[] nothing = new byte[0];
        pair("create_and_unlink_empty_or_16_KiB", 100, n -> created(nothing, n), n -> created(page, n));
        Path few = filled("few", 5);
        Path many = filled("many", 50);
        pair("list_5_or_50_files", 50, n -> listed(few, n), n -> listed(many, n));
        RandomAccessFile file = new RandomAccessFile(there.toFile(), "r");
        pair("read_64_KiB_in_8192_or_512_bytes", 20, n -> parts(file, large, 8192, n), n -> parts(file, large, 512, n));
        FileChannel channel = FileChannel.open(Files.write(directory.resolve("mapped"), new byte[1 << 20]));
        pair("map_1_MiB_touch_1_or_256_pages", 20, n -> mapped(channel, 1, n), n -> mapped(channel, 256, n));
    }

    private static long read(InputStream from, byte[] into, int size, int n) throws Exception {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += from.read(into, 0, size);
        }
        return sum;
    }

    private static long write(OutputStream to, byte[] from, int size, int n) throws Exception {
        for (int i = 0; i < n; i++) {
            to.write(from, 0, size);
        }
        return n;
    }

    private static long exists(Path path, int n) {
        long found = 0;
        for (int i = 0; i < n; i++) {
            found += Files.exists(path) ? 1 : 0;
        }
        return found;
    }

    private static long opened(Path path, int n) throws Exception {
        for (int i = 0; i < n; i++) {
            new FileInputStream(path.toFile()).close();
        }
        return n;
    }

    private static long created(byte[] content, int n) throws Exception {
        Path path = directory.resolve("created");
        for (int i = 0; i < n; i++) {
            Files.write(path, content);
            Files.delete(path);
        }
        return n;
    }

    private static Path filled(String name, int files) throws Exception {
        Path path = Files.createDirectories(directory.resolve(name));
        for (int i = 0; i < files; i++) {
            Files.write(path.resolve("file-" + i), new byte[0]);
        }
        return path;
    }

    private static long listed(Path path, int n) {
        long found = 0;
        for (int i = 0; i < n; i++) {
            found += path.toFile().list().length;
        }
        return found;
    }

    private static long parts(RandomAccessFile file, byte[] into, int size, int n) throws Exception {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            file.seek(0);
            for (int got; (got = file.read(into, 0, size)) > 0; ) {
                sum += got;
            }
        }
        return sum;
    }

    private static long mapped(FileChannel channel, int pages, int n) throws Exception {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_ONLY, 0, 1 << 20);
            for (int page = 0; page < pages; page++) {
                sum += map.get(page * 4096);
            }
        }
        return sum;
    }

    // Threads and sockets.

    private static void talking() throws Exception {
        Pipe own = Pipe.open();
        Pipe there = Pipe.open();
        Pipe back = Pipe.open();
        echo(there, back);
        pair("pipe_one_thread_or_two", 300, n -> pipe(own, own, n), n -> pipe(there, back, n));
        Socket socket = connected();
        pair("loopback_1_or_16384_bytes", 100, n -> exchanged(socket, 1, n), n -> exchanged(socket, 16384, n));
        ArrayDeque<Integer> queue = new ArrayDeque<>();
        SynchronousQueue<Integer> asked = new SynchronousQueue<>();
        SynchronousQueue<Integer> answered = new SynchronousQueue<>();
        daemon(() -> {
            while (true) {
                answered.put(asked.take());
            }
        });
        pair("queue_or_handing_over", 300, n -> queued(queue, n), n -> handed(asked, answered, n));
        ExecutorService pool = Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        pair("pool_or_new_thread", 50, n -> pooled(pool, n), n -> threads(n));
        Object lock = new Object();
        pair("plain_or_synchronized", 100_000, n -> plain(n), n -> locked(lock, n));
        pair("spin_or_yield", 2000, n -> spun(n), n -> yielded(n));
    }

    private interface Endless {
        void run() throws Exception;
    }

    private static void daemon(Endless body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception ended) {
                throw new IllegalStateException(ended);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void echo(Pipe there, Pipe back) {
        daemon(() -> {
            ByteBuffer one = ByteBuffer.allocateDirect(1);
            while (true) {
                one.clear();
                there.source().read(one);
                one.flip();
                back.sink().write(one);
            }
        });
    }

    private static long pipe(Pipe there, Pipe back, int n) throws Exception {
        ByteBuffer one = ByteBuffer.allocateDirect(1);
        for (int i = 0; i < n; i++) {
            one.clear();
            there.sink().write(one);
            one.clear();
            back.source().read(one);
        }
        return n;
    }

    private static Socket connected() throws Exception {
        ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket client = new Socket(server.getInetAddress(), server.getLocalPort());
        Socket accepted = server.accept();
        client.setTcpNoDelay(true);
        accepted.setTcpNoDelay(true);
        daemon(() -> {
            byte[] some = new byte[16384];
            while (true) {
                int got = accepted.getInputStream().read(some);
                accepted.getOutputStream().write(some, 0, got);
            }
        });
        return client;
    }

    private static long exchanged(Socket socket, int size, int n) throws Exception {
        byte[] some = new byte[size];
        for (int i = 0; i < n; i++) {
            socket.getOutputStream().write(some);
            socket.getInputStream().readNBytes(some, 0, size);
        }
        return n;
    }

    private static long queued(ArrayDeque<Integer> queue, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            queue.add(i);
            sum += queue.remove();
        }
        return sum;
    }

    private static long handed(SynchronousQueue<Integer> asked, SynchronousQueue<Integer> answered, int n)
            throws Exception {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            asked.put(i);
            sum += answered.take();
        }
        return sum;
    }

    private static long pooled(ExecutorService pool, int n) throws Exception {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += pool.submit(() -> 1).get();
        }
        return sum;
    }

    private static long threads(int n) throws Exception {
        for (int i = 0; i < n; i++) {
            Thread thread = new Thread(() -> sink++);
            thread.start();
            thread.join();
        }
        return n;
    }

    private static long plain(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += i ^ (sum << 1);
        }
        return sum;
    }

    private static long locked(Object lock, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            synchronized (lock) {
                sum += i ^ (sum << 1);
            }
        }
        return sum;
    }

    private static long spun(int n) {
        for (int i = 0; i < n; i++) {
            Thread.onSpinWait();
        }
        return n;
    }

    private static long yielded(int n) {
        for (int i = 0; i < n; i++) {
            Thread.yield();
        }
        return n;
    }

    // Allocation and access.

    private static void memory() {
        pair("allocate_64_or_1024_bytes", 10_000, n -> allocated(64, n), n -> allocated(1024, n));
        pair("keep_few_or_many_objects", 20, n -> kept(100, n), n -> kept(5000, n));
        int[] values = new int[1 << 20];
        int[] scattered = new int[1 << 20];
        Random random = new Random(1);
        for (int i = 0; i < values.length; i++) {
            values[i] = i;
            scattered[i] = i;
        }
        for (int i = values.length - 1; i > 0; i--) {
            int at = random.nextInt(i + 1);
            int kept = scattered[i];
            scattered[i] = scattered[at];
            scattered[at] = kept;
        }
        int[] data = new int[1 << 20];
        pair("walk_in_order_or_scattered", 1 << 20, n -> walked(data, values, n), n -> walked(data, scattered, n));
        List<Integer> array = new ArrayList<>();
        List<Integer> linked = new LinkedList<>();
        for (int i = 0; i < 2000; i++) {
            array.add(i);
            linked.add(i);
        }
        pair("array_list_or_linked_list", 30, n -> summed(array, n), n -> summed(linked, n));
        byte[] source = new byte[65536];
        byte[] target = new byte[65536];
        pair("array_copy_or_loop", 20, n -> copied(source, target, n), n -> looped(source, target, n));
    }

    private static long allocated(int size, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            byte[] some = new byte[size];
            some[i & 63] = 1;
            sum += some[0];
        }
        return sum;
    }

    private static long kept(int objects, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            Object[] all = new Object[objects];
            for (int k = 0; k < objects; k++) {
                all[k] = new long[2];
            }
            sum += all.length;
        }
        return sum;
    }

    private static long walked(int[] data, int[] order, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += data[order[i]];
        }
        return sum;
    }

    private static long summed(List<Integer> list, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            for (Integer value : list) {
                sum += value;
            }
        }
        return sum;
    }

    private static long copied(byte[] source, byte[] target, int n) {
        for (int i = 0; i < n; i++) {
            System.arraycopy(source, 0, target, 0, source.length);
        }
        return target[n];
    }

    private static long looped(byte[] source, byte[] target, int n) {
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < source.length; k++) {
                target[k] = source[k];
            }
        }
        return target[n];
    }

    // Computing.

    private static void computing() {
        Random random = new Random(2);
        int[] mixed = random.ints(2000).toArray();
        int[] sorted = mixed.clone();
        Arrays.sort(sorted);
        pair("sort_sorted_or_random", 10, n -> sorts(sorted, n), n -> sorts(mixed, n));
        Map<Integer, Integer> hash = new HashMap<>();
        Map<Integer, Integer> tree = new TreeMap<>();
        for (int value : mixed) {
            hash.put(value, value);
            tree.put(value, value);
        }
        pair("hash_map_or_tree_map", 20_000, n -> looked(hash, mixed, n), n -> looked(tree, mixed, n));
        pair("string_builder_or_concatenation", 20, n -> built(n), n -> concatenated(n));
        pair("add_or_divide", 100_000, n -> added(n), n -> divided(n));
        pair("square_root_or_sine", 20_000, n -> roots(n), n -> sines(n));
        pair("return_or_throw", 1000, n -> returned(n), n -> thrown(n));
        String text = "a long line of words without the one that is looked for ".repeat(4);
        Pattern pattern = Pattern.compile("absen[ct]e");
        pair("index_of_or_pattern", 500, n -> found(text, n), n -> matched(pattern, text, n));
        byte[] block = new byte[65536];
        pair("crc32_or_adler32", 20, n -> crc(block, n), n -> adler(block, n));
        String other = text.replace('o', '\u00f6');
        pair("utf8_ascii_or_umlauts", 500, n -> encoded(text, n), n -> encoded(other, n));
        pair("integers_boxed_or_not", 50_000, n -> unboxed(n), n -> boxed(n));
    }

    private static long sorts(int[] values, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            int[] copy = values.clone();
            Arrays.sort(copy);
            sum += copy[0];
        }
        return sum;
    }

    private static long looked(Map<Integer, Integer> map, int[] keys, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += map.get(keys[i % keys.length]);
        }
        return sum;
    }

    private static long built(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            StringBuilder text = new StringBuilder();
            for (int k = 0; k < 200; k++) {
                text.append("word ");
            }
            sum += text.length();
        }
        return sum;
    }

    private static long concatenated(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            String text = "";
            for (int k = 0; k < 200; k++) {
                text = text.concat("word ");
            }
            sum += text.length();
        }
        return sum;
    }

    private static long added(int n) {
        long sum = 1L << 40;
        for (int i = 1; i <= n; i++) {
            sum = (sum ^ i) + 12_345_678_901L;
        }
        return sum;
    }

    private static long divided(int n) {
        long sum = 1L << 40;
        for (int i = 1; i <= n; i++) {
            sum = (sum ^ i) / (i | 1) + 12_345_678_901L;
        }
        return sum;
    }

    private static long roots(int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += Math.sqrt(i);
        }
        return (long) sum;
    }

    private static long sines(int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += Math.sin(i);
        }
        return (long) sum;
    }

    private static long returned(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += new Object().hashCode() & 1;
        }
        return sum;
    }

    private static long thrown(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            try {
                throw new IllegalStateException();
            } catch (IllegalStateException expected) {
                sum++;
            }
        }
        return sum;
    }

    private static long found(String text, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += text.indexOf("absence");
        }
        return sum;
    }

    private static long matched(Pattern pattern, String text, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += pattern.matcher(text).find() ? 1 : 0;
        }
        return sum;
    }

    private static long crc(byte[] block, int n) {
        CRC32 sum = new CRC32();
        for (int i = 0; i < n; i++) {
            sum.update(block);
        }
        return sum.getValue();
    }

    private static long adler(byte[] block, int n) {
        Adler32 sum = new Adler32();
        for (int i = 0; i < n; i++) {
            sum.update(block);
        }
        return sum.getValue();
    }

    private static long encoded(String text, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += text.getBytes(StandardCharsets.UTF_8).length;
        }
        return sum;
    }

    private static long unboxed(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            int value = i * 31;
            sum += value;
        }
        return sum;
    }

    private static long boxed(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            Integer value = i * 31;
            sum += value;
        }
        return sum;
    }
}
