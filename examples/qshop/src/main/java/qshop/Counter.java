package qshop;

import io.quarkus.panache.common.Page;
import io.quarkus.panache.common.Sort;
import jakarta.transaction.Transactional;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.NotFoundException;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.QueryParam;
import java.util.List;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;

/** The shop over HTTP; {@code packing}: milliseconds that a sale takes beside the database, inside its transaction. */
@Path("/items")
public class Counter {
    @ConfigProperty(name = "qshop.packing", defaultValue = "0")
    long packing;

    @GET
    public List<Item> list() {
        return Item.findAll(Sort.by("id")).page(Page.ofSize(20)).list();
    }

    @GET
    @Path("/{id}")
    public Item item(@Parameter(example = "7") long id) {
        return Item.<Item>findByIdOptional(id).orElseThrow(NotFoundException::new);
    }

    @POST
    @Path("/{id}/sales")
    @Transactional
    public int sell(@Parameter(example = "7") long id, @QueryParam("quantity") @Parameter(example = "1") int quantity)
            throws InterruptedException {
        Thread.sleep(packing);
        return Item.update("stock = stock - ?1 where id = ?2 and stock >= ?1", quantity, id);
    }
}
