"""How a delay is added to the path between client and server: each module is one method, with its own commands."""
