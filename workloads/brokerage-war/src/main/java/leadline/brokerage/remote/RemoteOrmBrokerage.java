package leadline.brokerage.remote;

import jakarta.annotation.PostConstruct;
import jakarta.ejb.Remote;
import jakarta.ejb.Stateless;
import jakarta.persistence.EntityManager;
import jakarta.persistence.PersistenceContext;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.orm.OrmBrokerage;

/** Mode {@code orm} by its remote interface. */
@Stateless(name = "RemoteOrmBrokerage")
@Remote(RemoteBrokerage.class)
public class RemoteOrmBrokerage extends Facade {
    @PersistenceContext(unitName = "brokerage")
    private EntityManager entities;

    private Brokerage work;

    @PostConstruct
    void prepare() {
        work = new OrmBrokerage(entities);
    }

    @Override
    Brokerage work() {
        return work;
    }
}
