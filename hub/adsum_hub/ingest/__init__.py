"""`/ingest`: for machines that may reach only the hub."""
