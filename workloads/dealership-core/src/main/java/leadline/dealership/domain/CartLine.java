package leadline.dealership.domain;

import java.io.Serializable;

/** Vehicles somebody wants. */
public record CartLine(String model, int quantity) implements Serializable {}
