package leadline.brokerage.domain;

/** What the owner of an account may change. */
public record Profile(String fullName, String address, String email, String card) {}
