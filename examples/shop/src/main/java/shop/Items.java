package shop;

import java.util.List;
import org.springframework.data.domain.Pageable;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.jpa.repository.Modifying;
import org.springframework.data.jpa.repository.Query;

interface Items extends JpaRepository<Item, Long> {
    List<Item> findByIdGreaterThanEqualOrderById(long first, Pageable page);

    @Modifying
    @Query("update Item i set i.stock = i.stock - :quantity where i.id = :id and i.stock >= :quantity")
    int take(long id, int quantity);
}
