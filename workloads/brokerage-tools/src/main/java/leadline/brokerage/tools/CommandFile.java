package leadline.brokerage.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import leadline.brokerage.domain.Checks;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.replay.Command;
import leadline.common.Money;

/** Command logs as JSON lines; the fields are those the HTTP interface takes, with {@code op} and {@code user}. */
final class CommandFile {
    private CommandFile() {}

    static List<Command> read(Path file) throws IOException {
        List<Command> out = new ArrayList<>();
        int number = 0;
        for (String line : Files.readAllLines(file)) {
            number++;
            if (!line.isBlank()) {
                try {
                    out.add(command(JSON.std.mapFrom(line)));
                } catch (IOException | ClassCastException | NullPointerException | IllegalArgumentException e) {
                    throw new IOException(file + ":" + number + ": not a command: " + line, e);
                }
            }
        }
        return out;
    }

    private static Command command(Map<String, Object> m) {
        String user = (String) m.get("user");
        return switch ((String) m.get("op")) {
            case "login" -> new Command.Login(user, (String) m.get("password"));
            case "register" ->
                new Command.Register(new Registration(
                        user,
                        (String) m.get("password"),
                        profile(m),
                        Checks.money(m.get("opening_balance").toString(), "opening_balance")));
            case "profile" -> new Command.UpdateProfile(user, profile(m));
            case "buy" ->
                new Command.Buy(
                        user,
                        (String) m.get("command"),
                        (String) m.get("symbol"),
                        (Integer) m.get("quantity"),
                        ((Number) m.get("quote")).longValue());
            case "sell" ->
                new Command.Sell(
                        user, (String) m.get("command"), (String) m.get("buy"), ((Number) m.get("quote")).longValue());
            default -> throw new IllegalArgumentException("unknown op");
        };
    }

    private static Profile profile(Map<String, Object> m) {
        return new Profile((String) m.get("full_name"), (String) m.get("address"), (String) m.get("email"), (String)
                m.get("card"));
    }

    static String line(Command command) throws IOException {
        return JSON.std.asString(fields(command));
    }

    /** The object for a command; {@code op} is also the address below {@code /api}. */
    static Map<String, Object> fields(Command command) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("op", op(command));
        out.put("user", command.user());
        if (command instanceof Command.Login c) {
            out.put("password", c.password());
        } else if (command instanceof Command.Register c) {
            out.put("password", c.registration().password());
            put(out, c.registration().profile());
            out.put("opening_balance", Money.decimal(c.registration().openingBalance()));
        } else if (command instanceof Command.UpdateProfile c) {
            put(out, c.profile());
        } else if (command instanceof Command.Buy c) {
            out.put("command", c.command());
            out.put("symbol", c.symbol());
            out.put("quantity", c.quantity());
            out.put("quote", c.quote());
        } else if (command instanceof Command.Sell c) {
            out.put("command", c.command());
            out.put("buy", c.boughtBy());
            out.put("quote", c.quote());
        }
        return out;
    }

    static String op(Command command) {
        return command instanceof Command.UpdateProfile
                ? "profile"
                : command.getClass().getSimpleName().toLowerCase(Locale.ROOT);
    }

    private static void put(Map<String, Object> out, Profile profile) {
        out.put("full_name", profile.fullName());
        out.put("address", profile.address());
        out.put("email", profile.email());
        out.put("card", profile.card());
    }
}
