package peers;

import com.tagtraum.perf.gcviewer.imp.DataReaderFacade;
import com.tagtraum.perf.gcviewer.math.DoubleData;
import com.tagtraum.perf.gcviewer.model.GcResourceFile;
import java.util.Locale;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Count, sum and longest of the pauses that GCViewer finds in a log. */
public final class Viewer {
    private Viewer() {}

    public static void main(String[] args) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        GcResourceFile file = new GcResourceFile(args[0]);
        file.getLogger().setLevel(Level.OFF);
        DoubleData pauses = new DataReaderFacade().loadModel(file).getPause();
        boolean any = pauses.getN() > 0;
        System.out.printf(
                Locale.ROOT,
                "{\"count\": %d, \"sum_ms\": %.6f, \"max_ms\": %.6f}%n",
                pauses.getN(),
                any ? 1e3 * pauses.getSum() : 0.0,
                any ? 1e3 * pauses.getMax() : 0.0);
    }
}
