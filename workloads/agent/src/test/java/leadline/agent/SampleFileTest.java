package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class SampleFileTest {
    @TempDir
    Path directory;

    @Test
    void writesOneRowAValueAndLeavesOutWhatIsNoNumber() throws IOException {
        Path file = directory.resolve("agent.csv");
        try (SampleFile out = new SampleFile(file)) {
            out.at(1_700_000_000_123_456_789L);
            out.add("pool.in_use", "\"jdbc/a,b\"", 3);
            out.add("pool.wait_ms_mean", "p", 0.25);
            out.add("pool.max", "p", Double.NaN);
            out.flush();
            assertEquals(
                    List.of(
                            "time_ns,metric,subject,value",
                            "1700000000123456789,pool.in_use,jdbc/ab,3",
                            "1700000000123456789,pool.wait_ms_mean,p,0.25"),
                    Files.readAllLines(file));
        }
    }
}
