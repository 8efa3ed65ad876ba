package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import leadline.common.DriverCount;
import leadline.dealership.check.Load;
import leadline.dealership.check.SupplierCount;

/** The JSON documents that audits read. */
final class Documents {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private Documents() {}

    static Map<String, DriverCount> counts(Path file) throws IOException {
        Map<String, DriverCount> out = new LinkedHashMap<>();
        for (Map.Entry<String, Object> entry :
                JSON.std.mapFrom(Files.readAllBytes(file)).entrySet()) {
            if (!(entry.getValue() instanceof Map<?, ?> count)
                    || !(count.get("ok") instanceof Number ok)
                    || !(count.get("failed") instanceof Number failed)) {
                throw new IOException(file + ": \"" + entry.getKey() + "\" must be {\"ok\": n, \"failed\": n}");
            }
            long skipped = count.get("skipped") instanceof Number number ? number.longValue() : 0;
            out.put(entry.getKey(), new DriverCount(ok.longValue(), failed.longValue(), skipped));
        }
        return out;
    }

    static Load load(Path file) throws IOException {
        Map<String, Object> found = JSON.std.mapFrom(Files.readAllBytes(file));
        Map<String, Long> asked = new LinkedHashMap<>();
        if (found.get("asked") instanceof Map<?, ?> counts) {
            counts.forEach((name, count) -> asked.put((String) name, ((Number) count).longValue()));
        }
        String source = file.toString();
        return new Load(
                number(source, found, "injection_rate").doubleValue(),
                number(source, found, "dealer_cycle").doubleValue(),
                number(source, found, "plant_cycle").doubleValue(),
                number(source, found, "seconds").doubleValue(),
                number(source, found, "waiting").doubleValue(),
                asked);
    }

    /** From a file, or from {@code /orders} of a running emulator when it is an address. */
    static SupplierCount supplier(String fileOrAddress) throws IOException, InterruptedException {
        byte[] bytes = fileOrAddress.startsWith("http://") || fileOrAddress.startsWith("https://")
                ? get(fileOrAddress.replaceAll("/(orders)?/?$", "") + "/orders")
                : Files.readAllBytes(Path.of(fileOrAddress));
        Map<String, Object> document = JSON.std.mapFrom(bytes);
        return new SupplierCount(
                number(fileOrAddress, document, "received").longValue(),
                number(fileOrAddress, document, "delivered").longValue(),
                number(fileOrAddress, document, "pending").longValue(),
                number(fileOrAddress, document, "failed").longValue());
    }

    private static Number number(String source, Map<String, Object> document, String field) throws IOException {
        if (document.get(field) instanceof Number number) {
            return number;
        }
        throw new IOException(source + ": \"" + field + "\" must be a number, got " + document.get(field));
    }

    private static byte[] get(String address) throws IOException, InterruptedException {
        HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(address)).timeout(PATIENCE).build();
        HttpResponse<byte[]> response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
        if (response.statusCode() != 200) {
            throw new IOException(address + " responded with " + response.statusCode());
        }
        return response.body();
    }
}
