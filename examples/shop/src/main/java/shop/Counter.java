package shop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.data.domain.PageRequest;
import org.springframework.http.HttpStatus;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** The shop over HTTP. */
@RestController
class Counter {
    private static final int PAGE = 20;

    private final Items items;
    private final Purchases purchases;
    private final long packing;
    private final boolean cache;
    private final boolean oneByOne;
    private final Map<Long, Item> known = new ConcurrentHashMap<>();

    /**
     * {@code packing}: milliseconds that an order takes beside the database, inside its transaction. {@code cache}: an
     * item is shown as it was first read. {@code oneByOne}: a list asks the database for each of its items (N + 1).
     */
    Counter(
            Items items,
            Purchases purchases,
            @Value("${shop.packing:0}") long packing,
            @Value("${shop.cache:true}") boolean cache,
            @Value("${shop.one-by-one:false}") boolean oneByOne) {
        this.items = items;
        this.purchases = purchases;
        this.packing = packing;
        this.cache = cache;
        this.oneByOne = oneByOne;
    }

    @GetMapping("/items")
    List<Item> list(@RequestParam(defaultValue = "1") long first) {
        List<Item> page = items.findByIdGreaterThanEqualOrderById(first, PageRequest.ofSize(PAGE));
        return oneByOne ? page.stream().map(item -> read(item.id)).toList() : page;
    }

    @GetMapping("/items/{id}")
    Item item(@PathVariable long id) {
        if (!cache) {
            return read(id);
        }
        Item item = known.get(id);
        if (item == null) { // asked outside the map: computeIfAbsent would lock it while this waits for a connection
            item = read(id);
            known.put(id, item);
        }
        return item;
    }

    private Item read(long id) {
        return items.findById(id).orElseThrow(() -> new ResponseStatusException(HttpStatus.NOT_FOUND));
    }

    @PostMapping("/orders")
    @ResponseStatus(HttpStatus.CREATED)
    @Transactional
    public Purchase order(@RequestParam long item, @RequestParam int quantity) throws InterruptedException {
        if (items.take(item, quantity) == 0) {
            throw new ResponseStatusException(HttpStatus.CONFLICT, "sold out");
        }
        Purchase made = new Purchase();
        made.item = item;
        made.quantity = quantity;
        made.cents = quantity * item(item).cents;
        Thread.sleep(packing);
        return purchases.save(made);
    }

    @GetMapping("/sales")
    Sales sales() {
        return new Sales(purchases.count());
    }

    record Sales(long orders) {}
}
