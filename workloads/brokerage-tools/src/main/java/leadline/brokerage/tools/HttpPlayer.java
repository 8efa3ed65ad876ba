package leadline.brokerage.tools;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import leadline.brokerage.replay.Command;
import leadline.brokerage.replay.Player;

/** Plays commands against a running application, with an HTTP session for each user. */
final class HttpPlayer implements Player {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(PATIENCE)
            .build();
    private final String base;
    private final Map<String, String> cookies = new HashMap<>();

    /** {@code base} is the address of the application with its context root. */
    HttpPlayer(String base) {
        this.base = base.endsWith("/") ? base.substring(0, base.length() - 1) : base;
    }

    @Override
    public boolean play(Command command) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + "/api/" + CommandFile.op(command)))
                .timeout(PATIENCE)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(CommandFile.line(command)));
        String cookie = cookies.get(command.user());
        if (cookie != null) {
            request.header("Cookie", cookie);
        }
        HttpResponse<String> response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        response.headers()
                .firstValue("Set-Cookie")
                .ifPresent(value -> cookies.put(command.user(), value.split(";", 2)[0]));
        int status = response.statusCode();
        if (status == 200) {
            return true;
        }
        if (status == 400 || status == 404 || status == 409) {
            return false;
        }
        throw new IOException(CommandFile.op(command) + " of " + command.user() + " was answered with " + status + ": "
                + response.body().strip());
    }

    @Override
    public void close() {
        cookies.clear();
    }
}
