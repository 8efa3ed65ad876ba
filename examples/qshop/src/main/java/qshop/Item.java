package qshop;

import io.quarkus.hibernate.orm.panache.PanacheEntityBase;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;

@Entity
public class Item extends PanacheEntityBase {
    @Id
    public Long id;

    public String name;
    public int stock;
}
