"""Hosts over SSH: leadline's own package there, spoken to over the connection's standard input and output."""
