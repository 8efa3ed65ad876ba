package leadline.brokerage.web;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.LocalDateTime;
import java.util.List;
import java.util.Map;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Side;
import org.junit.jupiter.api.Test;

class JsonViewsTest {
    private static final LocalDateTime MOMENT = LocalDateTime.of(2026, 3, 4, 5, 6, 7);

    private static String sent(Map<String, ?> view) throws IOException {
        return new String(Replies.json(view), StandardCharsets.UTF_8);
    }

    @Test
    void anOrderHasItsNumberOrNoneYet() throws IOException {
        Order filled = new Order(7, Side.BUY, "S00003", 2, 1000, 100, "FILLED", MOMENT, null);
        assertTrue(sent(JsonViews.order(filled)).startsWith("{\"order\":7,"));
        Order accepted = new Order(0, Side.BUY, "S00003", 2, 0, 0, QueueingBrokerage.ACCEPTED, MOMENT, "mine");
        assertTrue(sent(JsonViews.order(accepted)).startsWith("{\"order\":null,\"side\":\"buy\""));
    }

    @Test
    void anAccountThatWasNeverLoggedInSaysSo() throws IOException {
        AccountView newcomer = new AccountView(3, "new", 1000, 1000, 0, null, List.of());
        String account = sent(JsonViews.account(newcomer));
        assertTrue(account.contains("\"last_login_at\":null"), account);
    }
}
