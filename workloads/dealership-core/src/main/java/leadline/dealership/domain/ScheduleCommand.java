package leadline.dealership.domain;

/**
 * A wish to build.
 *
 * @param command a name within the plant that makes a repetition harmless; null if none
 */
public record ScheduleCommand(String command, String model, int quantity) {}
