import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordedMethod;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordingFile;

/**
 * The execution samples of a flight recording, one line a second and stack: unix second, tab, samples, tab, methods
 * from the outermost on with semicolons between. Of a long recording every n-th sample stands for n.
 */
public final class FoldedSamples {
    private static final String EVENT = "jdk.ExecutionSample";
    private static final long MOST = 30_000; // samples, which is enough to know shares within 0.3 %
    private static final String DEEPER = "(deeper than was recorded)";

    /** What differs from one JVM to the next in the names of generated classes. */
    private static final Pattern GENERATED =
            Pattern.compile("(?:[/+.](?:0x[0-9a-f]+|\\d+))+$|(?<=\\$\\$Lambda)\\$\\d+|(?<=Accessor|\\$Proxy)\\d+$");

    private FoldedSamples() {}

    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[0]);
        long step = 1 + count(file) / MOST;
        Map<Long, Map<String, Long>> seconds = new TreeMap<>();
        long seen = 0;
        try (RecordingFile events = new RecordingFile(file)) {
            while (events.hasMoreEvents()) {
                RecordedEvent event = events.readEvent();
                if (!event.getEventType().getName().equals(EVENT) || seen++ % step != 0) {
                    continue;
                }
                seconds.computeIfAbsent(event.getStartTime().getEpochSecond(), second -> new TreeMap<>())
                        .merge(stack(event.getStackTrace()), step, Long::sum);
            }
        }
        try (PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8)) {
            seconds.forEach((second, stacks) ->
                    stacks.forEach((stack, samples) -> out.print(second + "\t" + samples + "\t" + stack + "\n")));
        }
    }

    private static long count(Path file) throws Exception {
        long found = 0;
        try (RecordingFile events = new RecordingFile(file)) {
            while (events.hasMoreEvents()) {
                found += events.readEvent().getEventType().getName().equals(EVENT) ? 1 : 0;
            }
        }
        return found;
    }

    private static String stack(RecordedStackTrace trace) {
        if (trace == null) {
            return "(no stack)";
        }
        StringBuilder line = new StringBuilder(trace.isTruncated() ? DEEPER : "");
        List<RecordedFrame> frames = trace.getFrames();
        for (int at = frames.size() - 1; at >= 0; at--) {
            line.append(line.length() == 0 ? "" : ";").append(name(frames.get(at).getMethod()));
        }
        return line.toString();
    }

    private static String name(RecordedMethod method) {
        if (method == null) {
            return "(unknown)";
        }
        String type = GENERATED.matcher(method.getType().getName()).replaceAll("");
        return type + "." + method.getName();
    }
}
