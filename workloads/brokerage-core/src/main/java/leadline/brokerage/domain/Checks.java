package leadline.brokerage.domain;

import java.util.List;
import java.util.regex.Pattern;
import leadline.common.Money;

/** Checks on what people send, before the database is asked. All throw BAD_REQUEST. */
public final class Checks {
    public static final int MOST_SHARES = 10_000;
    public static final int MOST_SYMBOLS = 20;
    private static final Pattern USER = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{1,39}");
    private static final Pattern SYMBOL = Pattern.compile("[A-Z0-9]{1,10}");
    private static final Pattern COMMAND = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private static final long MOST_OPENING = 100_000_000_00L;

    private Checks() {}

    public static int quantity(int quantity) {
        if (quantity < 1 || quantity > MOST_SHARES) {
            throw BrokerageException.bad("quantity must be 1 to " + MOST_SHARES + ", got " + quantity);
        }
        return quantity;
    }

    public static String symbol(String symbol) {
        if (symbol == null || !SYMBOL.matcher(symbol).matches()) {
            throw BrokerageException.bad("symbol must be 1 to 10 capital letters or digits");
        }
        return symbol;
    }

    public static List<String> symbols(List<String> symbols) {
        if (symbols.isEmpty() || symbols.size() > MOST_SYMBOLS) {
            throw BrokerageException.bad("symbols must be a list of 1 to " + MOST_SYMBOLS + ", got " + symbols.size());
        }
        symbols.forEach(Checks::symbol);
        return symbols;
    }

    /** Null stays null: a command without a name is never taken for a repetition. */
    public static String command(String command) {
        if (command != null && !COMMAND.matcher(command).matches()) {
            throw BrokerageException.bad("command must be 1 to 64 letters, digits or . _ : -");
        }
        return command;
    }

    /** Cents of an amount such as {@code 1,000.50}. */
    public static long money(String text, String field) {
        try {
            return Money.parse(text, field);
        } catch (IllegalArgumentException e) {
            throw BrokerageException.bad(e.getMessage());
        }
    }

    public static Registration registration(Registration wanted) {
        if (wanted.user() == null || !USER.matcher(wanted.user()).matches()) {
            throw BrokerageException.bad(
                    "user must be 2 to 40 letters, digits or . _ - and start with one of the first two");
        }
        if (wanted.password() == null
                || wanted.password().length() < 4
                || wanted.password().length() > 100) {
            throw BrokerageException.bad("password must have 4 to 100 characters");
        }
        if (wanted.openingBalance() < 0 || wanted.openingBalance() > MOST_OPENING) {
            throw BrokerageException.bad("opening_balance must be 0 to " + Money.text(MOST_OPENING));
        }
        profile(wanted.profile());
        return wanted;
    }

    public static Profile profile(Profile profile) {
        text("full_name", profile.fullName(), 100);
        text("address", profile.address(), 200);
        text("email", profile.email(), 100);
        text("card", profile.card(), 30);
        if (profile.email().indexOf('@') < 1) {
            throw BrokerageException.bad("email must contain an @, got \"" + profile.email() + "\"");
        }
        return profile;
    }

    private static void text(String field, String value, int longest) {
        if (value == null || value.isBlank() || value.length() > longest || value.indexOf('\0') >= 0) {
            throw BrokerageException.bad(field + " must have 1 to " + longest + " characters");
        }
    }
}
