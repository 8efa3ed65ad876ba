package leadline.brokerage.remote;

import jakarta.annotation.PostConstruct;
import jakarta.annotation.Resource;
import jakarta.ejb.Remote;
import jakarta.ejb.Stateless;
import javax.sql.DataSource;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.session.SessionBrokerage;

/** Mode {@code session} by its remote interface. */
@Stateless(name = "RemoteSessionBrokerage")
@Remote(RemoteBrokerage.class)
public class RemoteSessionBrokerage extends Facade {
    @Resource(name = "jdbc/brokerage", shareable = false)
    private DataSource source;

    private Brokerage work;

    @PostConstruct
    void prepare() {
        work = new SessionBrokerage(source);
    }

    @Override
    Brokerage work() {
        return work;
    }
}
