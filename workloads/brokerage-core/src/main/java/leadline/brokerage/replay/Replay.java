package leadline.brokerage.replay;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Plays a log with several threads. The commands of a user keep their order, because one thread plays them all; users
 * interleave as the threads happen to run.
 */
public final class Replay {
    /** Opens a player for one thread. */
    public interface PlayerFactory {
        Player open() throws Exception;
    }

    /** Commands done and refused. */
    public record Outcome(long done, long refused) {}

    private Replay() {}

    public static Outcome run(List<Command> log, int threads, PlayerFactory players) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Callable<Outcome>> parts = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                int part = i;
                List<Command> mine = log.stream()
                        .filter(command -> Math.floorMod(command.user().hashCode(), threads) == part)
                        .toList();
                parts.add(() -> play(mine, players));
            }
            long done = 0;
            long refused = 0;
            for (Future<Outcome> part : pool.invokeAll(parts)) {
                done += part.get().done();
                refused += part.get().refused();
            }
            return new Outcome(done, refused);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            pool.shutdownNow();
        }
    }

    private static Outcome play(List<Command> commands, PlayerFactory players) throws Exception {
        long done = 0;
        try (Player player = players.open()) {
            for (Command command : commands) {
                done += player.play(command) ? 1 : 0;
            }
        }
        return new Outcome(done, commands.size() - done);
    }
}
