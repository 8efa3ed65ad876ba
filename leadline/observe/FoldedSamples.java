import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
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
 * What flight recordings hold by stack: arguments "seconds" and one file, or a kind of events and files.
 *
 * <p>"seconds": of each event one line a second and stack: its unix nanosecond, tab, the event's name, tab, samples or
 * bytes, tab, methods from the outermost on with semicolons between. Of a long recording every n-th event stands for n,
 * and a sample of CPU time that came after several of its periods for as many. Of each wait one line: the unix
 * nanosecond of its end, its microseconds, and its thread before the methods. A kind ("cpu", "allocation", "wait"): of each file a line "#", tab, its events' name, tab, their number, tab,
 * nanoseconds of CPU that a sample stands for (0 where it is not known), then a line a stack: the number of the file,
 * from 0, tab, value, tab, stack.
 */
public final class FoldedSamples {
    private static final String SAMPLE = "jdk.CPUTimeSample";
    private static final String LOST = "jdk.CPUTimeSamplesLost"; // in code of the JVM itself, whose stack is not walked
    private static final String NO_STACK = "(no stack)";

    /** By kind; of CPU samples the first that a file has. */
    private static final Map<String, List<String>> EVENTS = Map.of(
            "cpu", List.of(SAMPLE, "jdk.ExecutionSample"),
            "allocation", List.of("jdk.ObjectAllocationSample"),
            "wait", List.of("jdk.JavaMonitorEnter", "jdk.ThreadPark"));

    private static final List<String> WAITS = List.of(
            "jdk.JavaMonitorEnter", "jdk.JavaMonitorWait", "jdk.ThreadPark", "jdk.ThreadSleep", "jdk.SocketRead");

    private static final int MOST_WAITS = 400_000; // of a file; later ones are left out

    private static final long MOST = 30_000; // samples, which is enough to know shares within 0.3 %
    private static final int MOST_STACKS = 100_000; // of a file; the others are one
    private static final String PERIOD = "samplingPeriod"; // with the runs of the timer that a late signal missed
    private static final String DEEPER = "(deeper than was recorded)";

    /** What differs from one JVM to the next in the names of generated classes. */
    private static final Pattern GENERATED =
            Pattern.compile("(?:[/+.](?:0x[0-9a-f]+|\\d+))+$|(?<=\\$\\$Lambda)\\$\\d+|(?<=Accessor|\\$Proxy)\\d+$");

    private FoldedSamples() {}

    public static void main(String[] args) {
        boolean seconds = args[0].equals("seconds");
        try (PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8)) {
            for (int number = 1; number < args.length; number++) {
                try {
                    Path file = Path.of(args[number]);
                    Map<String, Long> counts = count(file);
                    for (String kind : seconds ? EVENTS.keySet() : List.of(args[0])) {
                        print(file, counts, kind, seconds ? -1 : number - 1, out);
                    }
                } catch (Exception error) { // of whatever kind a damaged file brings about
                    System.err.println(Path.of(args[number]).getFileName() + ": " + error);
                    System.exit(1);
                }
            }
        }
    }

    private static void print(Path file, Map<String, Long> counts, String kind, long number, PrintStream out)
            throws Exception {
        boolean isWait = number < 0 && kind.equals("wait");
        List<String> events = (isWait ? WAITS : EVENTS.get(kind)).stream().filter(counts::containsKey).toList();
        if (kind.equals("cpu") && events.size() > 1) {
            events = events.subList(0, 1);
        }
        long all = events.stream().mapToLong(counts::get).sum();
        long step = number < 0 && !isWait ? 1 + all / MOST : 1;
        Map<String, Map<String, Long>> lines = new TreeMap<>(); // by what a line begins with
        long seen = 0;
        long period = counts.getOrDefault(PERIOD, 0L);
        if (all == 0 && number < 0) {
            return;
        }
        try (RecordingFile recording = new RecordingFile(file)) {
            while (recording.hasMoreEvents()) {
                RecordedEvent event = recording.readEvent();
                String name = event.getEventType().getName();
                boolean isLost = name.equals(LOST) && events.contains(SAMPLE);
                if (!isLost && (!events.contains(name) || seen++ % step != 0)) {
                    continue;
                }
                if (isWait) {
                    if (seen <= MOST_WAITS) {
                        wait(event, name, out);
                    }
                    continue;
                }
                Map<String, Long> stacks = lines.computeIfAbsent(
                        number < 0
                                ? event.getStartTime().getEpochSecond() + "000000000\t" + (isLost ? SAMPLE : name)
                                : Long.toString(number),
                        key -> new HashMap<>());
                String stack = isLost ? NO_STACK : stack(event.getStackTrace());
                stacks.merge(
                        stacks.size() < MOST_STACKS || stacks.containsKey(stack) ? stack : "(other stacks)",
                        isLost ? event.getLong("lostSamples") : step * value(kind, event, period),
                        Long::sum);
            }
        }
        if (number >= 0) {
            out.print("#\t" + String.join(",", events) + "\t" + all + "\t" + period + "\n");
        }
        lines.forEach((key, stacks) -> new TreeMap<>(stacks)
                .forEach((stack, value) -> out.print(key + "\t" + value + "\t" + stack + "\n")));
    }

    private static void wait(RecordedEvent event, String name, PrintStream out) {
        Instant end = event.getEndTime();
        long thread = event.getThread() == null ? 0 : event.getThread().getJavaThreadId();
        out.print(end.getEpochSecond() * 1_000_000_000 + end.getNano() + "\t" + name + "\t"
                + event.getDuration().toNanos() / 1000 + "\t" + thread + ";" + stack(event.getStackTrace()) + "\n");
    }

    /** Samples, bytes, or microseconds. */
    private static long value(String kind, RecordedEvent event, long period) {
        return switch (kind) {
            case "allocation" -> event.getLong("weight");
            case "wait" -> event.getDuration().toNanos() / 1000;
            default -> event.hasField(PERIOD) && period > 0
                    ? Math.max(1, Math.round(event.getDuration(PERIOD).toNanos() / (double) period))
                    : 1;
        };
    }

    /** Events by name, and the shortest period of CPU time of a sample in nanoseconds. */
    private static Map<String, Long> count(Path file) throws Exception {
        Map<String, Long> counts = new HashMap<>();
        try (RecordingFile events = new RecordingFile(file)) {
            while (events.hasMoreEvents()) {
                RecordedEvent event = events.readEvent();
                counts.merge(event.getEventType().getName(), 1L, Long::sum);
                if (event.hasField(PERIOD)) {
                    counts.merge(PERIOD, event.getDuration(PERIOD).toNanos(), Long::min);
                }
            }
        }
        return counts;
    }

    private static String stack(RecordedStackTrace trace) {
        if (trace == null) {
            return NO_STACK;
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
