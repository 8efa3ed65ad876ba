package leadline.dealership.remote;

import jakarta.annotation.PostConstruct;
import jakarta.annotation.Resource;
import jakarta.ejb.Remote;
import jakarta.ejb.Stateless;
import java.util.List;
import javax.sql.DataSource;
import leadline.common.Parcel;
import leadline.dealership.domain.Dealership;
import leadline.dealership.session.SessionDealership;

/** Mode {@code session} by its remote interface. */
@Stateless(name = "RemoteSessionDealership")
@Remote(RemoteDealership.class)
public class RemoteSessionDealership implements RemoteDealership {
    @Resource(name = "jdbc/dealership", shareable = false)
    private DataSource source;

    private Dealership work;

    @PostConstruct
    void prepare() {
        work = new SessionDealership(source);
    }

    @Override
    public Parcel<Object> call(String operation, Parcel<List<Object>> arguments) {
        return Operations.call(work, operation, arguments);
    }
}
