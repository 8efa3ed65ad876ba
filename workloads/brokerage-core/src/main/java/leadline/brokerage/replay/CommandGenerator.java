package leadline.brokerage.replay;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import leadline.brokerage.data.Generator;
import leadline.brokerage.data.Scale;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;

/**
 * Makes seeded command logs for loaded data: purchases, sales, profiles, registrations, some commands twice and some
 * that must be refused. Quotes are those of the loaded data or older, so they exist in every interleaving.
 */
public final class CommandGenerator {
    private static final int NEW_USERS_PERCENT = 4;
    private static final int PROFILES_PERCENT = 10;
    private static final int REPEATS_PERCENT = 5;
    private static final int TOO_LARGE_PERCENT = 3;
    private static final int SALES_PERCENT = 40;

    /** What a user can still sell, as far as the log knows; a refused purchase makes a refused sale. */
    private record Lot(String command, String symbol) {}

    private final SplittableRandom random;
    private final List<Generator.Instrument> instruments;
    private final Map<String, Long> trades = new HashMap<>();
    private final List<String> users = new ArrayList<>();
    private final Map<String, String> passwords = new HashMap<>();
    private final Map<String, List<Lot>> lots = new HashMap<>();
    private final Map<String, Command> latest = new HashMap<>();
    private final List<Command> log = new ArrayList<>();
    private int newUsers;

    public CommandGenerator(Scale scale, long dataSeed, long seed) {
        this.random = new SplittableRandom(seed);
        Generator generator = new Generator(scale, dataSeed);
        for (long i = 1; i <= scale.accounts(); i++) {
            Generator.Account account = generator.account(i, "");
            users.add(account.user());
            passwords.put(account.user(), Generator.password(i));
            List<Lot> held = new ArrayList<>();
            account.lots().forEach(lot -> held.add(new Lot(lot.command(), lot.symbol())));
            lots.put(account.user(), held);
        }
        instruments = generator.instruments();
        instruments.forEach(instrument -> trades.put(instrument.symbol(), instrument.trades()));
    }

    /** At least {@code count} commands: each user's first is preceded by a login. */
    public List<Command> generate(int count) {
        while (log.size() < count) {
            int percent = random.nextInt(100);
            if (percent < NEW_USERS_PERCENT) {
                register();
                continue;
            }
            String user = users.get(random.nextInt(users.size()));
            String password = passwords.remove(user);
            if (password != null) {
                log.add(new Command.Login(user, password));
            }
            percent = random.nextInt(100);
            if (percent < PROFILES_PERCENT) {
                log.add(new Command.UpdateProfile(user, profile(user)));
            } else if (percent < PROFILES_PERCENT + REPEATS_PERCENT && latest.containsKey(user)) {
                log.add(latest.get(user));
            } else if (percent < 100 - SALES_PERCENT || lots.get(user).isEmpty()) {
                buy(user);
            } else {
                sell(user);
            }
        }
        return log;
    }

    private void register() {
        newUsers++;
        String user = "new-" + newUsers;
        long opening = random.nextLong(20_000_00L);
        log.add(new Command.Register(new Registration(user, "secret-" + newUsers, profile(user), opening)));
        users.add(user);
        lots.put(user, new ArrayList<>());
    }

    private Profile profile(String user) {
        int number = random.nextInt(1_000_000);
        return new Profile("Name " + number, number + " Long Road", user + "@example.org", "0000-" + number);
    }

    private void buy(String user) {
        Generator.Instrument instrument = instruments.get(random.nextInt(instruments.size()));
        int quantity = random.nextInt(100) < TOO_LARGE_PERCENT ? 10_000 : random.nextInt(1, 101);
        String symbol = instrument.symbol();
        Command.Buy buy = new Command.Buy(user, name(), symbol, quantity, quote(symbol));
        lots.get(user).add(new Lot(buy.command(), symbol));
        add(buy);
    }

    private void sell(String user) {
        List<Lot> held = lots.get(user);
        Lot lot = held.remove(random.nextInt(held.size()));
        add(new Command.Sell(user, name(), lot.command(), quote(lot.symbol())));
    }

    private void add(Command command) {
        log.add(command);
        latest.put(command.user(), command);
    }

    private String name() {
        return "log-" + log.size();
    }

    private long quote(String symbol) {
        return random.nextLong(trades.get(symbol) + 1);
    }
}
