package leadline.brokerage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import leadline.brokerage.data.Scale;
import leadline.brokerage.replay.Command;
import leadline.brokerage.replay.CommandGenerator;
import leadline.brokerage.replay.Player;
import leadline.brokerage.replay.Replay;
import org.junit.jupiter.api.Test;

class ReplayTest {
    /** Remembers what it was given; refuses purchases of more than a thousand shares. */
    private static final class FakePlayer implements Player {
        private final Map<String, List<Command>> seen;
        private final AtomicInteger closed;

        FakePlayer(Map<String, List<Command>> seen, AtomicInteger closed) {
            this.seen = seen;
            this.closed = closed;
        }

        @Override
        public boolean play(Command command) {
            seen.computeIfAbsent(command.user(), user -> new CopyOnWriteArrayList<>())
                    .add(command);
            return !(command instanceof Command.Buy buy && buy.quantity() > 1_000);
        }

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    @Test
    void everyUserKeepsTheOrderOfTheLog() throws Exception {
        List<Command> log = new CommandGenerator(Scale.of(1), 7, 3).generate(2_000);
        Map<String, List<Command>> expected = log.stream().collect(Collectors.groupingBy(Command::user));
        long tooLarge = log.stream()
                .filter(command -> command instanceof Command.Buy buy && buy.quantity() > 1_000)
                .count();
        for (int threads : new int[] {1, 7}) {
            Map<String, List<Command>> seen = new ConcurrentHashMap<>();
            AtomicInteger closed = new AtomicInteger();
            Replay.Outcome outcome = Replay.run(log, threads, () -> new FakePlayer(seen, closed));
            assertEquals(expected, seen);
            assertEquals(new Replay.Outcome(log.size() - tooLarge, tooLarge), outcome);
            assertEquals(threads, closed.get());
        }
    }

    @Test
    void whatBreaksAPlayerBreaksTheReplay() {
        List<Command> log = List.of(new Command.Login("a", "b"));
        Exception e = assertThrows(
                IllegalStateException.class,
                () -> Replay.run(log, 2, () -> {
                    throw new IllegalStateException("no database");
                }));
        assertEquals("no database", e.getMessage());
    }
}
