"""One machine's collector: witnesses in, a durable spool in the middle, batches out."""
