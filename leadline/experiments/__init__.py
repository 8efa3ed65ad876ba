"""What is done with studies: planned from earlier ones, confirmed, bisected, tuned, soaked."""
