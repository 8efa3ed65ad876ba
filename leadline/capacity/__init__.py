"""Capacity: a queueing model fitted from one study of load, and what it predicts."""
