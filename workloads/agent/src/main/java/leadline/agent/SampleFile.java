package leadline.agent;

import java.io.BufferedWriter;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Rows of {@code time_ns,metric,subject,value}; a whole sample is flushed at once. */
final class SampleFile implements Closeable {
    private final BufferedWriter out;
    private long time;

    SampleFile(Path file) throws IOException {
        out = Files.newBufferedWriter(file);
        out.write("time_ns,metric,subject,value\n");
        out.flush();
    }

    /** Rows from here on carry this Unix time in nanoseconds. */
    void at(long nanoseconds) {
        time = nanoseconds;
    }

    /** One row; values that are not numbers are left out. */
    void add(String metric, String subject, double value) throws IOException {
        if (!Double.isFinite(value)) {
            return;
        }
        out.write(Long.toString(time));
        out.write(',');
        out.write(metric);
        out.write(',');
        out.write(clean(subject));
        out.write(',');
        out.write(
                value == Math.rint(value) && Math.abs(value) < 1e15
                        ? Long.toString((long) value)
                        : Double.toString(value));
        out.write('\n');
    }

    void flush() throws IOException {
        out.flush();
    }

    @Override
    public void close() throws IOException {
        out.close();
    }

    private static String clean(String subject) {
        return subject.replaceAll("[\",\\r\\n]", "");
    }
}
