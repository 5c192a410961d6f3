"""What is on disk until it is delivered: numbered, fsynced, kept until the hub has it."""
