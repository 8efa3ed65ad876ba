package leadline.brokerage.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import leadline.brokerage.data.Scale;
import leadline.brokerage.replay.Command;
import leadline.brokerage.replay.CommandGenerator;
import leadline.common.DriverCount;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CommandFileTest {
    @TempDir
    Path folder;

    @Test
    void aLogSurvivesBeingWrittenAndRead() throws IOException {
        List<Command> log = new CommandGenerator(Scale.of(1), 7, 3).generate(500);
        List<String> lines = new ArrayList<>();
        for (Command command : log) {
            lines.add(CommandFile.line(command));
        }
        Path file = Files.write(folder.resolve("log.jsonl"), lines);
        assertEquals(log, CommandFile.read(file));
    }

    @Test
    void aWrongLineIsNamed() throws IOException {
        for (String wrong : List.of("{\"op\":\"hold\"}", "nonsense", "{\"op\":\"buy\",\"user\":\"a\"}", "[]", "{}")) {
            Path file = Files.write(folder.resolve("log.jsonl"), List.of("", wrong));
            IOException e = assertThrows(IOException.class, () -> CommandFile.read(file));
            assertTrue(e.getMessage().contains("log.jsonl:2: not a command"), e.getMessage());
        }
    }

    @Test
    void countsAreReadAndCheckedByName() throws IOException {
        Path file = Files.writeString(folder.resolve("counts.json"), "{\"buy\":{\"ok\":3,\"failed\":1}}");
        assertEquals(Map.of("buy", new DriverCount(3, 1)), AuditCommand.counts(file));
        Files.writeString(file, "{\"buy\":{\"ok\":3}}");
        IOException e = assertThrows(IOException.class, () -> AuditCommand.counts(file));
        assertTrue(e.getMessage().contains("\"buy\" must be"), e.getMessage());
    }
}
