package leadline.brokerage.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.reflect.Method;
import java.time.LocalDateTime;
import java.util.List;
import java.util.stream.Stream;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Registration;
import leadline.brokerage.domain.Side;
import leadline.common.Parcel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ParcelTest {
    static List<Object> values() {
        LocalDateTime time = LocalDateTime.of(2026, 1, 2, 3, 4, 5, 6_000_000);
        Quote quote = new Quote("S00001", "One", 1, 2, 3, 4, 5, 6, 7);
        Order order = new Order(1, Side.SELL, "S00001", 2, 3, 4, "COMPLETED", time, null);
        return List.of(
                quote,
                new AccountView(1, "user", 2, 3, 4, null, List.of(order, order)),
                new BuyCommand("S00001", 3, null, "name"),
                new MarketSummary(List.of(quote), List.of(), List.of(quote, quote)),
                new Registration("user", "password", new Profile("a", "b", "c", "d"), 5),
                List.of("S00001", "S00002"));
    }

    @ParameterizedTest
    @MethodSource("values")
    void copiesWhatIsInside(Object value) throws IOException, ClassNotFoundException {
        long before = Parcel.copies();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(Parcel.of(value));
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            assertEquals(value, ((Parcel<?>) in.readObject()).open());
        }
        assertEquals(before + 1, Parcel.copies());
    }

    /** GlassFish's ORB then writes parcels to a stream; copying their fields fails for records. */
    @Test
    void hasAMethodNamedFinalizeThatIsNoFinalizer() {
        List<Method> found = Stream.of(Parcel.class.getDeclaredMethods())
                .filter(method -> method.getName().equals("finalize"))
                .toList();
        assertEquals(1, found.size());
        assertEquals(1, found.get(0).getParameterCount());
    }

    @Test
    void handsOnTheValueItselfByReference() {
        Profile profile = new Profile("a", "b", "c", "d");
        assertSame(profile, Parcel.of(profile).open());
    }
}
