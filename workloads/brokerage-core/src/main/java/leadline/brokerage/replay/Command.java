package leadline.brokerage.replay;

import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Registration;

/**
 * An entry of a command log. Nothing in it is an id the database gives: users, symbols and commands are named, a sale
 * names the purchase it undoes, and a price is named by the quote it was read at.
 */
public sealed interface Command {
    String user();

    record Login(String user, String password) implements Command {}

    record Register(Registration registration) implements Command {
        @Override
        public String user() {
            return registration.user();
        }
    }

    record UpdateProfile(String user, Profile profile) implements Command {}

    record Buy(String user, String command, String symbol, int quantity, long quote) implements Command {}

    record Sell(String user, String command, String boughtBy, long quote) implements Command {}
}
