package leadline.brokerage.domain;

/**
 * A wanted account.
 *
 * @param openingBalance cents
 */
public record Registration(String user, String password, Profile profile, long openingBalance) {}
