package leadline.brokerage.domain;

/** Who is logged in. */
public record Login(long account, String user) {}
