package leadline.common;

import java.math.BigDecimal;

/** Amounts of money are whole cents in a {@code long}; this class reads and writes them as decimals. */
public final class Money {
    private Money() {}

    /** {@code 123456} becomes {@code 1234.56}. */
    public static BigDecimal decimal(long cents) {
        return BigDecimal.valueOf(cents, 2);
    }

    /** {@code 123456} becomes {@code 1,234.56}. */
    public static String text(long cents) {
        String digits = Long.toString(Math.abs(cents) / 100);
        StringBuilder out = new StringBuilder(digits.length() + 8);
        if (cents < 0) {
            out.append('-');
        }
        for (int i = 0; i < digits.length(); i++) {
            if (i > 0 && (digits.length() - i) % 3 == 0) {
                out.append(',');
            }
            out.append(digits.charAt(i));
        }
        long rest = Math.abs(cents) % 100;
        return out.append('.').append(rest < 10 ? "0" : "").append(rest).toString();
    }

    /**
     * Reads an amount such as {@code 1000}, {@code 1000.5} or {@code 1,000.50}.
     *
     * @throws IllegalArgumentException with a message that names the field, for anything else
     */
    public static long parse(String text, String field) {
        try {
            return new BigDecimal(text.strip().replace(",", ""))
                    .movePointRight(2)
                    .longValueExact();
        } catch (NumberFormatException | ArithmeticException e) {
            throw new IllegalArgumentException(
                    field + " must be an amount with at most two decimals, got \"" + text + "\"");
        }
    }
}
