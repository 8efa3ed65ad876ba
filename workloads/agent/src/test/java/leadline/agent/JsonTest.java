package leadline.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class JsonTest {
    @Test
    void writesNestedValues() {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("count", 3);
        value.put("mean", 0.5);
        value.put("on", true);
        value.put("none", null);
        value.put("items", new ArrayList<>(Arrays.asList("a", 1L)));
        value.put("inner", Map.of("k", "v"));
        assertEquals(
                "{\"count\":3,\"mean\":0.5,\"on\":true,\"none\":null,\"items\":[\"a\",1],\"inner\":{\"k\":\"v\"}}",
                Json.write(value));
    }

    @Test
    void escapesWhatWouldEndOrBreakText() {
        assertEquals("\"a\\\"b\\\\c\\u000ad\\ud83d\\ude00\u00e9\"", Json.write("a\"b\\c\nd\ud83d\ude00\u00e9"));
    }

    @Test
    void writesNumbersThatJsonLacksAsNull() {
        assertEquals("[null,null]", Json.write(Arrays.asList(Double.NaN, Double.POSITIVE_INFINITY)));
    }
}
