package leadline.dealership.remote;

import jakarta.ejb.Remote;
import jakarta.ejb.Stateless;
import jakarta.ejb.TransactionAttribute;
import jakarta.ejb.TransactionAttributeType;
import java.util.List;
import java.util.Set;
import leadline.common.Parcel;
import leadline.dealership.domain.Advance;
import leadline.dealership.domain.PurchaseOrder;
import leadline.dealership.web.Application;

/**
 * The plant for agents outside the server: its operations in the mode of the pages, each a transaction of that mode,
 * and purchase orders to the supplier after their commit.
 */
@Stateless(name = "PlantAgents")
@Remote(RemoteDealership.class)
@TransactionAttribute(TransactionAttributeType.NOT_SUPPORTED)
public class PlantAgents implements RemoteDealership {
    private static final Set<String> OPERATIONS =
            Set.of("schedule", "claimLarge", "advance", "complete", "cancelWork", "requestParts", "status", "figures");

    @Override
    public Parcel<Object> call(String operation, Parcel<List<Object>> arguments) {
        if (!OPERATIONS.contains(operation)) {
            throw new IllegalArgumentException("the plant has no operation " + operation);
        }
        Application application = Application.running();
        Parcel<Object> result = Operations.call(application.dealership(), operation, arguments);
        if (result.open() instanceof Advance advance) {
            application.supplier().order(advance.ordered());
        } else if (result.open() instanceof PurchaseOrder order) {
            application.supplier().order(order);
        }
        return result;
    }
}
