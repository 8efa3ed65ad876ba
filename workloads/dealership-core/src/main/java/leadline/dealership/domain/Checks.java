package leadline.dealership.domain;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/** Checks on what people send, before the database is asked. All throw BAD_REQUEST. */
public final class Checks {
    public static final int MOST_LINES = 20;
    public static final int MOST_VEHICLES = 1_000;
    public static final int MOST_PARTS = 1_000_000;
    private static final Pattern ID = Pattern.compile("[A-Z0-9]{1,10}");
    private static final Pattern COMMAND = Pattern.compile("[A-Za-z0-9._:-]{1,64}");

    private Checks() {}

    /** Vehicles of one line. */
    public static int quantity(int quantity) {
        return between("quantity", quantity, 1, MOST_VEHICLES);
    }

    public static String model(String model) {
        return id("model", model);
    }

    /** Where a page of the catalogue starts; the empty text is before everything. */
    public static String place(String model) {
        return model != null && model.isEmpty() ? model : id("model", model);
    }

    public static int limit(int limit) {
        return between("limit", limit, 1, Dealership.MOST_ROWS);
    }

    /** Null stays null: a command without a name is never taken for a repetition. */
    public static String command(String command) {
        if (command != null && !COMMAND.matcher(command).matches()) {
            throw DealershipException.bad("command must be 1 to 64 letters, digits or . _ : -");
        }
        return command;
    }

    public static List<CartLine> lines(List<CartLine> lines) {
        Set<String> models = new HashSet<>();
        for (CartLine line : some("lines", lines)) {
            quantity(line.quantity());
            if (!models.add(model(line.model()))) {
                throw DealershipException.bad("model " + line.model() + " is in two lines");
            }
        }
        return lines;
    }

    public static List<PartLine> parts(List<PartLine> lines) {
        Set<String> parts = new HashSet<>();
        for (PartLine line : some("lines", lines)) {
            between("quantity", line.quantity(), 1, MOST_PARTS);
            if (!parts.add(id("part", line.part()))) {
                throw DealershipException.bad("part " + line.part() + " is in two lines");
            }
        }
        return lines;
    }

    private static <T> List<T> some(String field, List<T> lines) {
        if (lines == null || lines.isEmpty() || lines.size() > MOST_LINES) {
            throw DealershipException.bad(
                    field + " must be a list of 1 to " + MOST_LINES + ", got " + (lines == null ? 0 : lines.size()));
        }
        return lines;
    }

    private static String id(String field, String id) {
        if (id == null || !ID.matcher(id).matches()) {
            throw DealershipException.bad(field + " must be 1 to 10 capital letters or digits");
        }
        return id;
    }

    private static int between(String field, int value, int least, int most) {
        if (value < least || value > most) {
            throw DealershipException.bad(field + " must be " + least + " to " + most + ", got " + value);
        }
        return value;
    }
}
