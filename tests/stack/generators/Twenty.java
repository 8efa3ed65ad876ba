import static io.gatling.javaapi.core.CoreDsl.*;
import static io.gatling.javaapi.http.HttpDsl.*;

import io.gatling.javaapi.core.Simulation;

/** Twenty users, each with a page that is there and one that is not. */
public final class Twenty extends Simulation {
    public Twenty() {
        setUp(scenario("twenty")
                .exec(http("page").get("/gatling"), http("none").get("/none"))
                .injectOpen(rampUsers(20).during(1)))
            .protocols(http.baseUrl(System.getProperty("leadline.url")).disableWarmUp());
    }
}
