"""The receivers: each knows one outside thing, and says in one way how a delivery went."""
