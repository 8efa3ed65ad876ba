package leadline.dealership;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import leadline.common.Passwords;
import leadline.dealership.data.Generator;
import leadline.dealership.data.Scale;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    private final Generator generator = new Generator(Scale.of(1), 7);

    @Test
    void scaleGrowsWithTheUnitsFromALeastOn() {
        assertEquals(new Scale(1, 100, 50, 250, 10), Scale.of(1));
        assertEquals(new Scale(20, 2_000, 200, 1_000, 20), Scale.of(20));
        assertThrows(IllegalArgumentException.class, () -> Scale.of(0));
    }

    @Test
    void equalSeedsGiveEqualData() {
        Generator same = new Generator(Scale.of(1), 7);
        Generator other = new Generator(Scale.of(1), 8);
        assertEquals(generator.modelOf(3), same.modelOf(3));
        assertEquals(generator.dealerOf(5, "h"), same.dealerOf(5, "h"));
        assertEquals(generator.partOf(9), same.partOf(9));
        assertNotEquals(generator.modelOf(3), other.modelOf(3));
        assertTrue(Passwords.matches("pw-000042", generator.passwordHash(42)));
    }

    @Test
    void modelsHaveFiveToEightPartsThatExist() {
        for (int number = 1; number <= 50; number++) {
            Generator.Vehicle model = generator.modelOf(number);
            assertTrue(model.parts().size() >= 5 && model.parts().size() <= 8);
            assertTrue(model.parts().firstKey().compareTo(Generator.part(1)) >= 0);
            assertTrue(model.parts().lastKey().compareTo(Generator.part(250)) <= 0);
            assertTrue(model.parts().values().stream().allMatch(n -> n >= 1 && n <= 4));
            assertTrue(model.supplier() >= 1 && model.supplier() <= 10);
        }
    }
}
