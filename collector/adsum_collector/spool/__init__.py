"""The spool keeps signals on disk, numbered and fsynced, until a hub has them."""
