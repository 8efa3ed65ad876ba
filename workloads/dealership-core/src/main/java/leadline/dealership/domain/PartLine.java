package leadline.dealership.domain;

/** A number of one part. */
public record PartLine(String part, int quantity) {}
