"""Who may enter: login links, sign-ins of browsers, tokens, and the gate that asks for them."""
