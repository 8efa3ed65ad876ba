package shop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A small shop: items with a stock, orders that take from it. */
@SpringBootApplication
public class Shop {
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }
}
