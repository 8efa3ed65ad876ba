"""GC logs into events: HotSpot's unified logging (JDK 9 to 25), JDK 8's and OpenJ9's older forms."""
