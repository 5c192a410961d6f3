"""Decides who may enter: login links, sign-ins, tokens, and the gate that asks for them."""
