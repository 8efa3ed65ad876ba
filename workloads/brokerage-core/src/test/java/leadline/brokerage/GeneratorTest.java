package leadline.brokerage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import leadline.brokerage.data.Generator;
import leadline.brokerage.data.Scale;
import leadline.brokerage.replay.Command;
import leadline.brokerage.replay.CommandGenerator;
import leadline.common.Passwords;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    private static List<Generator.Account> accounts(Generator generator, long count) {
        List<Generator.Account> out = new ArrayList<>();
        for (long i = 1; i <= count; i++) {
            out.add(generator.account(i, "hash"));
        }
        return out;
    }

    @Test
    void dataGrowsWithTheLoadUnits() {
        assertEquals(new Scale(1, 200, 500, 5), Scale.of(1));
        assertEquals(new Scale(25, 5_000, 500, 5), Scale.of(25));
        assertEquals(new Scale(26, 5_200, 520, 5), Scale.of(26));
        assertEquals(new Scale(2, 20, 500, 3), Scale.of(2, 10, 3));
        assertThrows(IllegalArgumentException.class, () -> Scale.of(0));
    }

    @Test
    void equalSeedsGiveEqualDataAndOthersDoNot() {
        Scale scale = Scale.of(1);
        assertEquals(accounts(new Generator(scale, 7), 200), accounts(new Generator(scale, 7), 200));
        assertNotEquals(accounts(new Generator(scale, 7), 200), accounts(new Generator(scale, 8), 200));
    }

    @Test
    void generatedLotsAreBackedByPurchases() {
        Generator generator = new Generator(Scale.of(1), 7);
        Map<String, Set<Long>> numbers = new HashMap<>();
        long shares = 0;
        for (Generator.Account account : accounts(generator, 200)) {
            long balance = account.openingBalance();
            assertEquals(5, account.lots().size());
            for (Generator.Lot lot : account.lots()) {
                balance += lot.trade().cash();
                shares += lot.quantity();
                assertTrue(numbers.computeIfAbsent(lot.symbol(), s -> new HashSet<>())
                        .add(lot.number()));
            }
            assertEquals(balance, account.balance());
        }
        long volume = 0;
        for (Generator.Instrument instrument : generator.instruments()) {
            int trades = numbers.getOrDefault(instrument.symbol(), Set.of()).size();
            assertEquals(trades, instrument.trades());
            volume += instrument.volume();
        }
        assertEquals(shares, volume);
    }

    @Test
    void generatedUsersCanLogIn() {
        Generator generator = new Generator(Scale.of(1), 7);
        assertEquals("user-000042", Generator.user(42));
        assertEquals("S00042", Generator.symbol(42));
        assertTrue(Passwords.matches("pw-000042", generator.passwordHash(42)));
        assertNotEquals(generator.passwordHash(42), new Generator(Scale.of(1), 8).passwordHash(42));
    }

    @Test
    void commandLogsAreSeededAndLogUsersInFirst() {
        List<Command> log = new CommandGenerator(Scale.of(1), 7, 3).generate(2_000);
        assertEquals(log, new CommandGenerator(Scale.of(1), 7, 3).generate(2_000));
        assertNotEquals(log, new CommandGenerator(Scale.of(1), 7, 4).generate(2_000));
        Set<String> known = new HashSet<>();
        Set<Class<?>> kinds = new HashSet<>();
        for (Command command : log) {
            kinds.add(command.getClass());
            if (command instanceof Command.Login || command instanceof Command.Register) {
                assertTrue(known.add(command.user()), command.toString());
            }
            assertTrue(known.contains(command.user()), command.toString());
        }
        assertEquals(5, kinds.size());
    }
}
