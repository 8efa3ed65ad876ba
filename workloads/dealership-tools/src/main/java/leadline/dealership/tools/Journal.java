package leadline.dealership.tools;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * What happened to orders, a line each, written when it happens: {@code R} and the order's document when it was
 * received, {@code D} or {@code F} and its number when it was delivered or given up. Lines go to the operating system at
 * once and are not forced to the disk: they outlive the process, not the host. A last line without its end was being
 * written when the process was killed; nobody was told of it, and it is cut off.
 */
final class Journal implements AutoCloseable {
    /** A line: {@code order} is null unless it was received. */
    record Entry(char what, long id, Order order) {}

    private final Path file;
    private final FileChannel channel;

    Journal(Path file) throws IOException {
        this.file = file;
        this.channel =
                FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    /** What the file holds; to be called once, before anything is added. */
    List<Entry> read() throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        int end = bytes.length;
        while (end > 0 && bytes[end - 1] != '\n') {
            end--;
        }
        List<Entry> out = new ArrayList<>();
        for (String line :
                new String(bytes, 0, end, StandardCharsets.UTF_8).lines().toList()) {
            out.add(entry(line, out.size() + 1));
        }
        String cut = new String(bytes, end, bytes.length - end, StandardCharsets.UTF_8);
        if (!cut.matches("([RDF]( .*)?)?")) {
            throw new IOException(file + ":" + (out.size() + 1) + ": not a line of this journal: " + cut);
        }
        channel.truncate(end);
        channel.position(end);
        return out;
    }

    private Entry entry(String line, int number) throws IOException {
        try {
            String rest = line.substring(2);
            switch (line.substring(0, 2)) {
                case "R ":
                    Order order = Order.parse(rest.getBytes(StandardCharsets.UTF_8));
                    return new Entry('R', order.id(), order);
                case "D ", "F ":
                    return new Entry(line.charAt(0), Long.parseLong(rest), null);
                default:
                    throw new IOException("unknown");
            }
        } catch (IOException | IndexOutOfBoundsException | NumberFormatException e) {
            throw new IOException(file + ":" + number + ": not a line of this journal: " + line, e);
        }
    }

    void received(Order order) throws IOException {
        write("R " + order.json());
    }

    void delivered(long id) throws IOException {
        write("D " + id);
    }

    void failed(long id) throws IOException {
        write("F " + id);
    }

    private synchronized void write(String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
