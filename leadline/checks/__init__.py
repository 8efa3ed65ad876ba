"""What a plan must fulfil before anything starts; ``files`` reads study, stack and tuning files."""
