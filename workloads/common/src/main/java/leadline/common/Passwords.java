package leadline.common;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

/**
 * Salted PBKDF2-HMAC-SHA256 hashes, written as {@code iterations:salt:hash}. Few iterations on purpose: a login must
 * not drown the rest of the mix. A hash carries its own number, so both can live side by side.
 */
public final class Passwords {
    public static final int ITERATIONS = 1_000;
    private static final int SALT_BYTES = 16;
    private static final int HASH_BITS = 256;

    /** Characters of a hash that the number of iterations and the salt take. */
    static final int BEGINNING = beginning(new byte[SALT_BYTES]).length();

    private static final SecureRandom RANDOM = new SecureRandom();

    private Passwords() {}

    public static String hash(String password) {
        byte[] salt = new byte[SALT_BYTES];
        RANDOM.nextBytes(salt);
        return hash(password, salt);
    }

    public static String hash(String password, byte[] salt) {
        return beginning(salt) + ":" + HexFormat.of().formatHex(derive(password, salt, ITERATIONS));
    }

    /** How every hash with this salt begins. */
    public static String beginning(byte[] salt) {
        return ITERATIONS + ":" + HexFormat.of().formatHex(salt);
    }

    public static boolean matches(String password, String stored) {
        String[] parts = stored.split(":", 3);
        HexFormat hex = HexFormat.of();
        byte[] actual = derive(password, hex.parseHex(parts[1]), Integer.parseInt(parts[0]));
        return MessageDigest.isEqual(actual, hex.parseHex(parts[2]));
    }

    private static byte[] derive(String password, byte[] salt, int iterations) {
        try {
            PBEKeySpec spec = new PBEKeySpec(password.toCharArray(), salt, iterations, HASH_BITS);
            return SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256")
                    .generateSecret(spec)
                    .getEncoded();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("PBKDF2WithHmacSHA256 is not available in this Java runtime", e);
        }
    }
}
