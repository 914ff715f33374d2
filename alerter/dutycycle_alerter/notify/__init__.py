"""Notifications: who is told of an incident, in which message, and its delivery. Each way of telling is a receiver."""
