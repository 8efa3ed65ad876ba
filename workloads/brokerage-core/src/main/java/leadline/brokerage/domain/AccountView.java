package leadline.brokerage.domain;

import java.time.LocalDateTime;
import java.util.List;

/**
 * The account as its owner sees it; amounts in cents.
 *
 * @param orders latest first
 */
public record AccountView(
        long id,
        String user,
        long openingBalance,
        long balance,
        long logins,
        LocalDateTime lastLoginAt,
        List<Order> orders) {}
