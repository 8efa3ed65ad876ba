package leadline.dealership.domain;

import java.time.LocalDateTime;
import java.util.List;
import java.util.Optional;

/**
 * The operations of the application: dealers who buy and sell vehicles, and the plant that builds them. Every mode
 * implements them with the same SQL meaning; each is one transaction. All throw {@link DealershipException} for what a
 * caller did wrong and an unchecked exception for what broke. An operation with a command that was seen before gives
 * its first result again. Nothing here is repeated by itself.
 */
public interface Dealership {
    /** Most rows of a list. */
    int MOST_ROWS = 50;

    /** Vehicles in an order from which on it is large. */
    int LARGE_QUANTITY = 100;

    /** The stage of a work order that can be completed. */
    int LAST_STAGE = 3;

    /** Counts the login. UNAUTHORIZED for an unknown dealer or a wrong password, without saying which. */
    Login login(String name, String password);

    /** The next models by id; all from the first on after the empty text. */
    List<Model> models(String after, int limit);

    /** The models before one, in rising order of id. */
    List<Model> modelsBefore(String before, int limit);

    /** NOT_FOUND when it does not exist. */
    Model model(String id);

    DealerHome home(long dealer);

    /** Vehicles the dealer owns, by model; models without one are left out. */
    List<StockLine> inventory(long dealer);

    /** Orders that are OPEN or PRODUCING, the latest {@link #MOST_ROWS}, latest first. */
    List<SalesOrder> openOrders(long dealer);

    /** NOT_FOUND when it is not this dealer's. */
    SalesOrder order(long dealer, long id);

    /**
     * Orders vehicles and pays for them. Less than {@link #LARGE_QUANTITY} are SHIPPED at once when the finished
     * vehicles suffice and wait as OPEN for production otherwise. A large order is OPEN with a work order for each
     * line until the first of these is claimed. CONFLICT without the credit, NOT_FOUND for an unknown model.
     */
    SalesOrder purchase(long dealer, PurchaseCommand command);

    /** Pays an OPEN order back; CONFLICT in any other status. */
    SalesOrder cancel(long dealer, long order);

    /** Sells vehicles the dealer owns; CONFLICT when there are too few. */
    SalesOrder sell(long dealer, SellCommand command);

    /** A new PLANNED work order. */
    WorkOrder schedule(ScheduleCommand command);

    /**
     * One stage further. From stage 0 it takes the parts of all vehicles; when some are missing the stage stays, the
     * work order waits and the missing parts are ordered unless an order for it is under way. CONFLICT for a
     * closed or fully advanced work order and for a LARGE one that nobody claimed.
     */
    Advance advance(long id);

    /**
     * Closes a work order at the last stage. PLANNED vehicles become finished stock and fill waiting orders; {@code
     * quantity} may be smaller than planned, the rest is scrap. A LARGE work order takes its full quantity only; the
     * last one of an order ships it.
     */
    WorkOrder complete(long id, int quantity);

    /** Cancels a PLANNED work order that is not closed and returns its parts. CONFLICT otherwise. */
    WorkOrder cancelWork(long id);

    /** The oldest LARGE work order that nobody claimed, now RUNNING at stage 0; never waits for another claim. */
    Optional<WorkOrder> claimLarge();

    /** Orders parts for a work order that is not closed. */
    PurchaseOrder requestParts(long workOrder, List<PartLine> lines);

    /** Takes in the parts of a purchase order, once; the lines must be those ordered. */
    Delivery deliver(long purchaseOrder, List<PartLine> lines);

    WorkStatus status(long id);

    WorkFigures figures();

    /** Purchase orders sent before a time (UTC) and not delivered, oldest first: to be posted to the supplier again. */
    List<PurchaseOrder> undelivered(LocalDateTime sentBefore, int limit);

    /** Number of dealers; answers only when the database does. */
    long dealers();
}
