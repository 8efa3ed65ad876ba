package leadline.brokerage.web;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.common.Html;
import org.junit.jupiter.api.Test;

class HtmlTest {
    private static final String NASTY = "<script>alert('x')</script>\"&";

    @Test
    void valuesAreEscapedAndMarkupIsNot() {
        assertEquals(
                "<b>&lt;i&gt; &amp; &quot;&#39;</b>",
                new Html().add("<b>{}</b>", "<i> & \"'").toString());
        assertEquals(
                "<p><b>1</b></p>",
                new Html().add("<p>{}</p>", new Html().add("<b>{}</b>", 1)).toString());
    }

    @Test
    void placesAndValuesMustMatch() {
        assertThrows(IllegalArgumentException.class, () -> new Html().add("{}"));
        assertThrows(IllegalArgumentException.class, () -> new Html().add("x", 1));
    }

    @Test
    void nothingASomebodyTypedBecomesMarkup() {
        Profile profile = new Profile(NASTY, NASTY, NASTY, NASTY);
        List<String> pages = List.of(
                Pages.profile("/b", profile, true).toString(),
                PublicPages.login("/b", null, NASTY).toString(),
                PublicPages.register("/b", NASTY, profile, NASTY, NASTY).toString(),
                Layout.page("/b", "Home", new Login(1, NASTY), PublicPages.problem(NASTY))
                        .toString(),
                Pages.quotes("/b", List.of(new Quote("S1", NASTY, 1, 2, 1, 2, 10_000, 3, 4)), true)
                        .toString());
        for (String page : pages) {
            assertFalse(page.contains("<script"), page);
            assertTrue(page.contains("&lt;script"), page);
        }
    }

    @Test
    void driversFindTheirWay() {
        assertTrue(Pages.portfolio("/b", List.of(new Holding(42, "S00001", 3, 100, 110, 7)))
                .toString()
                .contains("data-holding=\"42\""));
        assertTrue(Pages.quotes("/b", List.of(new Quote("S00009", "c", 1, 2, 1, 2, 0, 3, 4)), false)
                .toString()
                .contains("data-symbol=\"S00009\""));
    }
}
