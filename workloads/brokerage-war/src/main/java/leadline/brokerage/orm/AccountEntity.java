package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.time.LocalDateTime;
import java.util.List;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.Order;

/** Table {@code account}. */
@Entity
@Table(name = "account")
public class AccountEntity {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    private Long id;

    @Column(name = "user_name")
    private String userName;

    @Column(name = "password_hash")
    private String passwordHash;

    @Column(name = "opening_balance")
    private long openingBalance;

    private long balance;

    @Column(name = "login_count")
    private long loginCount;

    @Column(name = "last_login_at")
    private LocalDateTime lastLoginAt;

    @Column(name = "created_at")
    private LocalDateTime createdAt;

    protected AccountEntity() {}

    AccountEntity(String userName, String passwordHash, long openingBalance, LocalDateTime createdAt) {
        this.userName = userName;
        this.passwordHash = passwordHash;
        this.openingBalance = openingBalance;
        this.balance = openingBalance;
        this.createdAt = createdAt;
    }

    long id() {
        return id;
    }

    String passwordHash() {
        return passwordHash;
    }

    long balance() {
        return balance;
    }

    void change(long amount) {
        balance += amount;
    }

    AccountView view(List<Order> orders) {
        return new AccountView(id, userName, openingBalance, balance, loginCount, lastLoginAt, orders);
    }

    HomeView home(long holdings, long holdingsValue) {
        return new HomeView(userName, openingBalance, balance, loginCount, holdings, holdingsValue);
    }
}
