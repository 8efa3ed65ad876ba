"""Study, stack and tuning files: YAML to typed values, every error with file, line and the nearest valid choice."""
