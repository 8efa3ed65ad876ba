import com.tagtraum.perf.gcviewer.imp.DataReaderFacade;
import com.tagtraum.perf.gcviewer.model.AbstractGCEvent;
import com.tagtraum.perf.gcviewer.model.GCModel;
import com.tagtraum.perf.gcviewer.model.GcResourceFile;
import com.tagtraum.perf.gcviewer.model.VmOperationEvent;
import java.util.Iterator;
import java.util.Locale;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Every pause that GCViewer finds in a collector log, one JSON document a line; then what it says it cannot read. */
public final class GcViewerEvents {
    private GcViewerEvents() {}

    public static void main(String[] files) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        for (String name : files) {
            GcResourceFile file = new GcResourceFile(name);
            Complaints complaints = new Complaints();
            file.getLogger().setUseParentHandlers(false);
            file.getLogger().setLevel(Level.WARNING);
            file.getLogger().addHandler(complaints);
            GCModel model = new DataReaderFacade().loadModel(file);
            Iterator<AbstractGCEvent<?>> events = model.getStopTheWorldEvents();
            while (events.hasNext()) {
                print(events.next(), model.hasCorrectTimestamp());
            }
            for (String text : complaints.first) {
                System.out.println("{\"complaint\": \"" + escaped(text) + "\"}");
            }
            System.out.println("{\"complaints\": " + complaints.count + "}");
        }
        System.exit(0);
    }

    private static void print(AbstractGCEvent<?> event, boolean timed) {
        String unix = event.getDatestamp() == null
                ? "null"
                : String.format(Locale.ROOT, "%.6f", event.getDatestamp().toInstant().toEpochMilli() / 1e3);
        System.out.printf(
                Locale.ROOT,
                "{\"at\": %s, \"unix\": %s, \"ms\": %.6f, \"type\": \"%s\", \"operation\": %b, \"full\": %b,"
                        + " \"remark\": %b, \"mark\": %b, \"before\": %d, \"after\": %d, \"total\": %d}%n",
                timed ? String.format(Locale.ROOT, "%.6f", event.getTimestamp()) : "null",
                unix,
                1e3 * event.getPause(),
                escaped(event.getTypeAsString()),
                event instanceof VmOperationEvent,
                event.isFull(),
                event.isRemark(),
                event.isInitialMark(),
                1024L * event.getPreUsed(),
                1024L * event.getPostUsed(),
                1024L * event.getTotal());
    }

    private static String escaped(String text) {
        return text.replaceAll("[\\p{Cntrl}]", " ").replace("\\", "\\\\").replace("\"", "\\\"");
    }

    /** Warnings and worse of the reader. */
    private static final class Complaints extends Handler {
        private final java.util.List<String> first = new java.util.ArrayList<>();
        private int count;

        @Override
        public void publish(LogRecord record) {
            if (record.getLevel().intValue() >= Level.WARNING.intValue() && count++ < 5) {
                first.add(String.valueOf(record.getMessage()));
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
