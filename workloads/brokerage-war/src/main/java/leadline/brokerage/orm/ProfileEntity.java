package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import leadline.brokerage.domain.Profile;

/** Table {@code account_profile}. */
@Entity
@Table(name = "account_profile")
public class ProfileEntity {
    @Id
    @Column(name = "account_id")
    private Long accountId;

    @Column(name = "full_name")
    private String fullName;

    private String address;
    private String email;
    private String card;

    @Column(name = "update_count")
    private long updateCount;

    protected ProfileEntity() {}

    ProfileEntity(long accountId, Profile profile) {
        this.accountId = accountId;
        this.fullName = profile.fullName();
        this.address = profile.address();
        this.email = profile.email();
        this.card = profile.card();
    }

    Profile profile() {
        return new Profile(fullName, address, email, card);
    }
}
