"""Delivers the spool to the hubs: in order, acknowledged, by Redis or through a hub."""
