"""Other load generators behind the interface of leadline-load: their scripts are run, their results read."""
