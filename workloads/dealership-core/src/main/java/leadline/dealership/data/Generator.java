package leadline.dealership.data;

import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.TreeMap;
import leadline.common.Passwords;

/** Makes the dealers, models, parts and suppliers of a scale and seed; each depends on its number only. */
public final class Generator {
    /** Raised when the same scale and seed give other data. */
    public static final int VERSION = 1;

    private static final int MODELS_OF_A_DEALER = 5;
    private static final List<String> PLACE =
            List.of("Northern", "Alpine", "Coastal", "Central", "Island", "Eastern", "Delta", "Summit");
    private static final List<String> BODY =
            List.of("Saloon", "Estate", "Coupe", "Van", "Pickup", "Hatchback", "Roadster", "Minibus");
    private static final List<String> ENGINE =
            List.of("1.2 petrol", "1.6 petrol", "2.0 diesel", "hybrid", "52 kWh electric", "77 kWh electric");
    private static final List<String> COLOUR = List.of("white", "graphite", "dark green", "red", "sand", "blue");
    private static final List<String> COMPONENT = List.of(
            "axle",
            "brake disc",
            "cable loom",
            "door seal",
            "fuel pump",
            "gearbox",
            "headlamp",
            "inverter",
            "radiator",
            "seat frame",
            "spring",
            "window lift");

    /** Stock of a dealer by model. Amounts in cents. */
    public record Dealer(
            String name, String passwordHash, long creditLimit, long openingBalance, TreeMap<String, Integer> stock) {}

    /** A vehicle: parts of one by part, and the finished ones. Price in cents. */
    public record Vehicle(
            String id,
            String name,
            String description,
            long price,
            long supplier,
            int finished,
            TreeMap<String, Integer> parts) {}

    /** A part and how many there are. Cost in cents. */
    public record Part(String id, String name, long cost, int leadDays, int onHand) {}

    private final Scale scale;
    private final long seed;

    public Generator(Scale scale, long seed) {
        this.scale = scale;
        this.seed = seed;
    }

    public static String dealerName(long number) {
        return String.format(Locale.ROOT, "dealer-%06d", number);
    }

    public static String password(long number) {
        return String.format(Locale.ROOT, "pw-%06d", number);
    }

    public static String model(int number) {
        return String.format(Locale.ROOT, "M%04d", number);
    }

    public static String part(int number) {
        return String.format(Locale.ROOT, "P%05d", number);
    }

    public static String supplier(int number) {
        return String.format(Locale.ROOT, "Supplier %d", number);
    }

    /** The dealer with this number, from 1. */
    public Dealer dealerOf(long number, String passwordHash) {
        SplittableRandom random = random(1, number);
        TreeMap<String, Integer> stock = new TreeMap<>();
        while (stock.size() < MODELS_OF_A_DEALER) {
            stock.putIfAbsent(model(random.nextInt(scale.models()) + 1), random.nextInt(10, 51));
        }
        return new Dealer(
                dealerName(number),
                passwordHash,
                random.nextLong(5, 11) * 1_000_000_00L,
                random.nextLong(50, 101) * 1_000_000_00L,
                stock);
    }

    /** The hash stored for a generated dealer; slow on purpose, free of any order. */
    public String passwordHash(long number) {
        return Passwords.hash(password(number), salt(number));
    }

    /** How {@link #passwordHash} begins; fast. */
    public String passwordSalt(long number) {
        return Passwords.beginning(salt(number));
    }

    private byte[] salt(long number) {
        byte[] salt = new byte[16];
        random(2, number).nextBytes(salt);
        return salt;
    }

    /** The model with this number, from 1: 5 to 8 parts, 1 to 4 of each. */
    public Vehicle modelOf(int number) {
        SplittableRandom random = random(3, number);
        TreeMap<String, Integer> parts = new TreeMap<>();
        int wanted = random.nextInt(5, 9);
        while (parts.size() < wanted) {
            parts.putIfAbsent(part(random.nextInt(scale.parts()) + 1), random.nextInt(1, 5));
        }
        String body = pick(random, BODY);
        return new Vehicle(
                model(number),
                pick(random, PLACE) + " " + body + " " + number,
                body + " with " + pick(random, ENGINE) + " engine, " + pick(random, COLOUR),
                random.nextLong(150, 451) * 100_00L,
                (number - 1) % scale.suppliers() + 1L,
                random.nextInt(150, 301),
                parts);
    }

    /** The part with this number, from 1. */
    public Part partOf(int number) {
        SplittableRandom random = random(4, number);
        return new Part(
                part(number),
                pick(random, PLACE) + " " + pick(random, COMPONENT) + " " + number,
                random.nextLong(5_00, 500_00),
                random.nextInt(1, 15),
                random.nextInt(400, 801));
    }

    private SplittableRandom random(int kind, long number) {
        return new SplittableRandom(
                seed * 0x9E3779B97F4A7C15L + kind * 0xBF58476D1CE4E5B9L + number * 0xD1B54A32D192ED03L);
    }

    private static String pick(SplittableRandom random, List<String> words) {
        return words.get(random.nextInt(words.size()));
    }
}
