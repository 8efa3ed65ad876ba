package leadline.dealership.sql;

import java.time.LocalDateTime;
import java.util.List;
import java.util.Optional;
import leadline.common.Transactions;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.DealerHome;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.Delivery;
import leadline.dealership.domain.Login;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.PurchaseCommand;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.ScheduleCommand;
import leadline.dealership.domain.SellCommand;
import leadline.dealership.domain.StockLine;
import leadline.dealership.domain.WorkFigures;
import leadline.dealership.domain.WorkOrder;
import leadline.dealership.domain.WorkStatus;

/** The operations on JDBC, in the transactions of a mode. */
public abstract class SqlDealership implements Dealership {
    /** In which each operation is done. */
    protected abstract Transactions transactions();

    @Override
    public Login login(String name, String password) {
        return transactions().run(c -> Sales.login(c, name, password));
    }

    @Override
    public List<Model> models(String after, int limit) {
        return transactions().run(c -> Queries.models(c, after, limit));
    }

    @Override
    public List<Model> modelsBefore(String before, int limit) {
        return transactions().run(c -> Queries.modelsBefore(c, before, limit));
    }

    @Override
    public Model model(String id) {
        return transactions().run(c -> Queries.model(c, id));
    }

    @Override
    public DealerHome home(long dealer) {
        return transactions().run(c -> Queries.home(c, dealer));
    }

    @Override
    public List<StockLine> inventory(long dealer) {
        return transactions().run(c -> Queries.inventory(c, dealer));
    }

    @Override
    public List<SalesOrder> openOrders(long dealer) {
        return transactions().run(c -> Queries.openOrders(c, dealer));
    }

    @Override
    public SalesOrder order(long dealer, long id) {
        return transactions().run(c -> Queries.order(c, dealer, id));
    }

    @Override
    public SalesOrder purchase(long dealer, PurchaseCommand command) {
        return transactions().run(c -> Sales.purchase(c, dealer, command));
    }

    @Override
    public SalesOrder cancel(long dealer, long order) {
        return transactions().run(c -> Sales.cancel(c, dealer, order));
    }

    @Override
    public SalesOrder sell(long dealer, SellCommand command) {
        return transactions().run(c -> Sales.sell(c, dealer, command));
    }

    @Override
    public WorkOrder schedule(ScheduleCommand command) {
        return transactions().run(c -> Plant.schedule(c, command));
    }

    @Override
    public Advance advance(long id) {
        return transactions().run(c -> Plant.advance(c, id));
    }

    @Override
    public WorkOrder complete(long id, int quantity) {
        return transactions().run(c -> Plant.complete(c, id, quantity));
    }

    @Override
    public WorkOrder cancelWork(long id) {
        return transactions().run(c -> Plant.cancel(c, id));
    }

    @Override
    public Optional<WorkOrder> claimLarge() {
        return transactions().run(Plant::claimLarge);
    }

    @Override
    public PurchaseOrder requestParts(long workOrder, List<PartLine> lines) {
        return transactions().run(c -> PurchaseOrders.request(c, workOrder, lines));
    }

    @Override
    public Delivery deliver(long purchaseOrder, List<PartLine> lines) {
        return transactions().run(c -> PurchaseOrders.deliver(c, purchaseOrder, lines));
    }

    @Override
    public WorkStatus status(long id) {
        return transactions().run(c -> Queries.status(c, id));
    }

    @Override
    public WorkFigures figures() {
        return transactions().run(Queries::figures);
    }

    @Override
    public List<PurchaseOrder> undelivered(LocalDateTime sentBefore, int limit) {
        return transactions().run(c -> Queries.undelivered(c, sentBefore, limit));
    }

    @Override
    public long dealers() {
        return transactions().run(Queries::dealers);
    }
}
