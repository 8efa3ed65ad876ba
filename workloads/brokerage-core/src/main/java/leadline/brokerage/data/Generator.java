package leadline.brokerage.data;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Trade;
import leadline.common.Passwords;

/**
 * Makes the accounts and instruments of a scale and seed. Every generated lot is backed by a completed purchase at a
 * price the instrument had, so the audits hold for the loaded data as they do after a run. Accounts are made one
 * after the other; {@link #instruments()} counts the trades made so far.
 */
public final class Generator {
    /** Raised when the same scale and seed give other data. */
    public static final int VERSION = 1;

    private static final long LEAST_OPENING = 500_000_00L;
    private static final long OPENING_RANGE = 1_000_000_00L;
    private static final int MOST_SHARES = 100;
    private static final List<String> GIVEN = List.of(
            "Ada", "Bela", "Chidi", "Dora", "Emeka", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kei", "Lena", "Mateo",
            "Nadia", "Oskar", "Priya");
    private static final List<String> FAMILY = List.of(
            "Abel",
            "Brandt",
            "Costa",
            "Dahl",
            "Eriksen",
            "Fonseca",
            "Gruber",
            "Horvat",
            "Ito",
            "Jensen",
            "Kaya",
            "Lindgren",
            "Moreau",
            "Novak",
            "Okafor",
            "Petrov");
    private static final List<String> STREET =
            List.of("Canal Street", "Mill Lane", "Harbour Road", "Station Square", "Orchard Way", "Quarry Hill");
    private static final List<String> TRADE =
            List.of("Mining", "Foods", "Motors", "Textiles", "Optics", "Freight", "Timber", "Energy", "Paper", "Glass");
    private static final List<String> PLACE =
            List.of("Northern", "Alpine", "Coastal", "Central", "Island", "Eastern", "Delta", "Summit");

    /** A generated purchase: {@code number} is its place among the instrument's trades. */
    public record Lot(String command, String symbol, int quantity, Trade trade, long quote, long number) {}

    /** A generated account after its purchases. */
    public record Account(
            String user, String passwordHash, Profile profile, long openingBalance, long balance, List<Lot> lots) {}

    /** An instrument after the purchases made so far. */
    public static final class Instrument {
        private final String symbol;
        private final String company;
        private long low;
        private long high;
        private long volume;
        private long trades;

        Instrument(String symbol, String company) {
            this.symbol = symbol;
            this.company = company;
            this.low = openPrice();
            this.high = low;
        }

        public String symbol() {
            return symbol;
        }

        public String company() {
            return company;
        }

        public long openPrice() {
            return PriceRule.price(symbol, 0);
        }

        public long price() {
            return PriceRule.price(symbol, trades);
        }

        public long low() {
            return low;
        }

        public long high() {
            return high;
        }

        public long volume() {
            return volume;
        }

        public long trades() {
            return trades;
        }

        void traded(int quantity) {
            trades++;
            volume += quantity;
            low = Math.min(low, price());
            high = Math.max(high, price());
        }
    }

    private final Scale scale;
    private final long seed;
    private final List<Instrument> instruments = new ArrayList<>();

    public Generator(Scale scale, long seed) {
        this.scale = scale;
        this.seed = seed;
        for (int i = 1; i <= scale.instruments(); i++) {
            SplittableRandom random = random(-i);
            instruments.add(new Instrument(symbol(i), pick(random, PLACE) + " " + pick(random, TRADE) + " " + i));
        }
    }

    public static String user(long number) {
        return String.format(Locale.ROOT, "user-%06d", number);
    }

    public static String password(long number) {
        return String.format(Locale.ROOT, "pw-%06d", number);
    }

    public static String symbol(int number) {
        return String.format(Locale.ROOT, "S%05d", number);
    }

    /** Command of the {@code lot}-th generated purchase of an account, both from 1. */
    public static String command(long account, int lot) {
        return "seed-" + account + "-" + lot;
    }

    public List<Instrument> instruments() {
        return instruments;
    }

    /** The account with this number, from 1; to be called once for each, in order. */
    public Account account(long number, String passwordHash) {
        SplittableRandom random = random(number);
        String given = pick(random, GIVEN);
        String family = pick(random, FAMILY);
        Profile profile = new Profile(
                given + " " + family,
                random.nextInt(1, 200) + " " + pick(random, STREET),
                user(number) + "@example.com",
                String.format(
                        Locale.ROOT,
                        "0000-%04d-%04d-%04d",
                        random.nextInt(10_000),
                        random.nextInt(10_000),
                        number % 10_000));
        long opening = LEAST_OPENING + random.nextLong(OPENING_RANGE);
        long balance = opening;
        List<Lot> lots = new ArrayList<>(scale.holdings());
        for (int k = 1; k <= scale.holdings(); k++) {
            Instrument instrument = instruments.get(random.nextInt(instruments.size()));
            long quote = instrument.trades();
            Trade trade = Trade.buy(random.nextInt(1, MOST_SHARES + 1), instrument.price(), balance);
            instrument.traded(trade.quantity());
            balance += trade.cash();
            lots.add(new Lot(
                    command(number, k), instrument.symbol(), trade.quantity(), trade, quote, instrument.trades()));
        }
        return new Account(user(number), passwordHash, profile, opening, balance, lots);
    }

    /** The hash stored for a generated account; slow on purpose, free of any order. */
    public String passwordHash(long number) {
        return Passwords.hash(password(number), salt(number));
    }

    /** How {@link #passwordHash} begins; fast. */
    public String passwordSalt(long number) {
        return Passwords.beginning(salt(number));
    }

    private byte[] salt(long number) {
        byte[] salt = new byte[16];
        random(Long.MIN_VALUE + number).nextBytes(salt);
        return salt;
    }

    private SplittableRandom random(long stream) {
        return new SplittableRandom(seed * 0x9E3779B97F4A7C15L + stream * 0xD1B54A32D192ED03L);
    }

    private static String pick(SplittableRandom random, List<String> words) {
        return words.get(random.nextInt(words.size()));
    }
}
