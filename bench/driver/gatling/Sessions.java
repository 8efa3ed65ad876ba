import static io.gatling.javaapi.core.CoreDsl.*;
import static io.gatling.javaapi.http.HttpDsl.*;

import io.gatling.javaapi.core.ChainBuilder;
import io.gatling.javaapi.core.PopulationBuilder;
import io.gatling.javaapi.core.ScenarioBuilder;
import io.gatling.javaapi.core.Simulation;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The sessions of bench/driver/sessions.py. System properties: url, steps (names, comma-separated), think (ms), seconds,
 * and one of rate (sessions a second), users (always so many) or idle (so many once, over seconds); warm (seconds with
 * 64 users that do not think, before). Prints "main" when the first session that counts begins.
 */
public final class Sessions extends Simulation {
    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    public Sessions() {
        double seconds = Double.parseDouble(System.getProperty("seconds"));
        Duration length = Duration.ofMillis(Math.round(1000 * seconds));
        ScenarioBuilder main = scenario("main").exec(session -> {
            if (BEGUN.compareAndSet(false, true)) {
                System.out.println("main");
            }
            return session;
        }).exec(session(Long.getLong("think")));
        PopulationBuilder load;
        if (System.getProperty("rate") != null) {
            load = main.injectOpen(constantUsersPerSec(Double.parseDouble(System.getProperty("rate"))).during(length));
        } else if (System.getProperty("users") != null) {
            load = main.injectClosed(constantConcurrentUsers(Integer.getInteger("users")).during(length));
        } else {
            load = main.injectOpen(rampUsers(Integer.getInteger("idle")).during(length));
        }
        long warm = Long.getLong("warm", 0);
        if (warm > 0) {
            load = scenario("warm").exec(session(0))
                .injectClosed(constantConcurrentUsers(64).during(Duration.ofSeconds(warm))).andThen(load);
        }
        setUp(load).protocols(http.baseUrl(System.getProperty("url")).disableWarmUp().disableCaching());
    }

    private static ChainBuilder session(long think) {
        ChainBuilder chain = exec(http("login").post("/login").formParam("user", "u").check(substring("Welcome")));
        chain = chain.exec(step("form"));
        for (String name : System.getProperty("steps").split(",")) {
            chain = rest(chain, think).exec(step(name));
        }
        return rest(chain, think).exec(http("logout").post("/logout"));
    }

    private static ChainBuilder rest(ChainBuilder chain, long think) {
        return think > 0 ? chain.pause(Duration.ofMillis(think)) : chain;
    }

    private static ChainBuilder step(String name) {
        return switch (name) {
            case "act" -> exec(http(name).post("/act").formParam("token", "#{token}").check(substring("done")));
            case "form" -> exec(http(name).get("/form")
                .check(substring("page"), regex("name=\"token\" value=\"([^\"]*)\"").saveAs("token")));
            default -> exec(http(name).get("/" + name).check(substring("page")));
        };
    }
}
