package peers;

import com.microsoft.gctoolkit.GCToolKit;
import com.microsoft.gctoolkit.aggregator.Aggregates;
import com.microsoft.gctoolkit.aggregator.Aggregation;
import com.microsoft.gctoolkit.aggregator.Aggregator;
import com.microsoft.gctoolkit.aggregator.Collates;
import com.microsoft.gctoolkit.aggregator.EventSource;
import com.microsoft.gctoolkit.event.g1gc.G1GCPauseEvent;
import com.microsoft.gctoolkit.event.generational.GenerationalGCPauseEvent;
import com.microsoft.gctoolkit.event.shenandoah.ShenandoahCycle;
import com.microsoft.gctoolkit.event.zgc.FullZGCCycle;
import com.microsoft.gctoolkit.event.zgc.MajorZGCCycle;
import com.microsoft.gctoolkit.event.zgc.MinorZGCCycle;
import com.microsoft.gctoolkit.event.zgc.ZGCCycle;
import com.microsoft.gctoolkit.io.SingleGCLogFile;
import com.microsoft.gctoolkit.time.DateTimeStamp;
import java.nio.file.Path;
import java.util.Locale;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Count, sum and longest of the pauses that GCToolkit finds in a log. */
public final class Toolkit {
    private Toolkit() {}

    public static void main(String[] args) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        Pauses pauses = new Pauses();
        GCToolKit kit = new GCToolKit();
        kit.loadAggregation(pauses);
        kit.analyze(new SingleGCLogFile(Path.of(args[0])));
        System.out.printf(
                Locale.ROOT,
                "{\"count\": %d, \"sum_ms\": %.6f, \"max_ms\": %.6f}%n",
                pauses.count,
                1e3 * pauses.sum,
                1e3 * pauses.longest);
    }

    /** Seconds. */
    @Collates(Collector.class)
    public static final class Pauses extends Aggregation {
        int count;
        double sum;
        double longest;

        synchronized void add(double seconds) {
            count++;
            sum += seconds;
            longest = Math.max(longest, seconds);
        }

        @Override
        public boolean hasWarning() {
            return false;
        }

        @Override
        public boolean isEmpty() {
            return count == 0;
        }
    }

    /** Takes every event that stands for pauses. */
    @Aggregates({EventSource.G1GC, EventSource.GENERATIONAL, EventSource.ZGC, EventSource.SHENANDOAH})
    public static final class Collector extends Aggregator<Pauses> {
        public Collector(Pauses pauses) {
            super(pauses);
            register(GenerationalGCPauseEvent.class, event -> pauses.add(event.getDuration()));
            register(G1GCPauseEvent.class, event -> pauses.add(event.getDuration()));
            register(ShenandoahCycle.class, event -> pauses.add(event.getDuration()));
            register(FullZGCCycle.class, event -> {
                add(event.getPauseMarkStartTimeStamp(), event.getPauseMarkStartDuration());
                add(event.getPauseMarkEndTimeStamp(), event.getPauseMarkEndDuration());
                add(event.getPauseRelocateStartTimeStamp(), event.getPauseRelocateStartDuration());
            });
            register(MinorZGCCycle.class, event -> cycle(event.getYoungCycle()));
            register(MajorZGCCycle.class, event -> {
                cycle(event.getYoungCycle());
                cycle(event.getOldCycle());
            });
        }

        private void cycle(ZGCCycle cycle) {
            if (cycle == null) {
                return;
            }
            add(cycle.getPauseMarkStartTimeStamp(), cycle.getPauseMarkStartDuration());
            add(cycle.getPauseMarkEndTimeStamp(), cycle.getPauseMarkEndDuration());
            add(cycle.getPauseRelocateStartTimeStamp(), cycle.getPauseRelocateStartDuration());
        }

        /** These durations are milliseconds, those of the other collectors' events seconds. */
        private void add(DateTimeStamp at, double milliseconds) {
            if (at != null) {
                aggregation().add(milliseconds / 1e3);
            }
        }
    }
}
