package leadline.dealership.domain;

/** Who is logged in. */
public record Login(long dealer, String name) {}
