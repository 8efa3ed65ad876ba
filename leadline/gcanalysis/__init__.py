"""What GC logs mean: pauses, rates, the live set and its trend, utilisation. Pure."""
