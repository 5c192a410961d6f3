"""What lies in the spool goes to the hubs: in order, acknowledged, by Redis or by a hub itself."""
