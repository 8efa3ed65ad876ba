package leadline.dealership.web;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.time.LocalDateTime;
import java.util.List;
import java.util.stream.Stream;
import leadline.common.Parcel;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.DealerHome;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.Login;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.OrderKind;
import leadline.dealership.domain.OrderLine;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.StockLine;
import org.junit.jupiter.api.Test;

class PagesTest {
    private static final String NASTY = "<script>alert('x')</script>\"&";
    private static final Model MODEL = new Model("M0001", NASTY, NASTY, 30_000_00, 7);

    private static SalesOrder order(OrderStatus status) {
        LocalDateTime time = LocalDateTime.of(2026, 1, 2, 3, 4, 5);
        List<OrderLine> lines = List.of(new OrderLine(1, "M0001", 120, 5));
        return new SalesOrder(42, 1, OrderKind.ORDER, true, status, 600, null, time, null, lines);
    }

    @Test
    void nothingASomebodyTypedBecomesMarkup() {
        List<String> pages = List.of(
                Pages.login("/d", new Login(1, NASTY), NASTY).toString(),
                Pages.home(new DealerHome(NASTY, 1, 2, 3, 4, 5, 6, 7)).toString(),
                Pages.catalogue("/d", List.of(MODEL), true).toString(),
                Pages.model("/d", MODEL).toString(),
                Pages.cart("/d", List.of(new Pages.Priced(new CartLine("M0001", 2), MODEL)))
                        .toString(),
                Pages.inventory("/d", List.of(new StockLine("M0001", NASTY, 3, 4)))
                        .toString(),
                Layout.page("/d", "Home", new Login(1, NASTY), Pages.problem(NASTY))
                        .toString());
        for (String page : pages) {
            assertFalse(page.contains("<script"), page);
            assertTrue(page.contains("&lt;script"), page);
        }
    }

    @Test
    void driversFindTheirWay() {
        String order = Pages.order("/d", order(OrderStatus.OPEN)).toString();
        assertTrue(order.contains("data-order=\"42\" data-status=\"open\" data-large=\"true\""), order);
        assertTrue(
                Pages.orders("/d", List.of(order(OrderStatus.OPEN))).toString().contains("data-open=\"42\""));
        assertFalse(Pages.orders("/d", List.of(order(OrderStatus.PRODUCING)))
                .toString()
                .contains("data-open"));
        assertTrue(Pages.cart("/d", List.of()).toString().contains("data-cart=\"0\""));
        assertTrue(Pages.inventory("/d", List.of(new StockLine("M0001", "n", 3, 4)))
                .toString()
                .contains("data-stock=\"M0001\""));
    }

    @Test
    void ordersTravelByValue() throws IOException, ClassNotFoundException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(Parcel.of(order(OrderStatus.SHIPPED)));
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            assertEquals(order(OrderStatus.SHIPPED), ((Parcel<?>) in.readObject()).open());
        }
    }

    /** The remote interface calls operations by name. */
    @Test
    void noTwoOperationsHaveTheSameName() {
        List<String> names =
                Stream.of(Dealership.class.getMethods()).map(m -> m.getName()).toList();
        assertEquals(names.size(), names.stream().distinct().count());
    }
}
