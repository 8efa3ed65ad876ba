package leadline.agent;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** What a probe says. */
final class Samples {
    private Samples() {}

    /** One sample, by metric and subject; its file is left in the directory. */
    static Map<String, Double> of(Probe probe, Path directory) throws Exception {
        Path file = Files.createTempFile(directory, "sample", ".csv");
        try (SampleFile out = new SampleFile(file)) {
            out.at(1);
            probe.sample(out);
            out.flush();
        }
        Map<String, Double> found = new HashMap<>();
        for (String row : Files.readAllLines(file)) {
            String[] cells = row.split(",");
            if (!cells[0].equals("time_ns")) {
                found.put(cells[1] + " " + cells[2], Double.parseDouble(cells[3]));
            }
        }
        return found;
    }
}
