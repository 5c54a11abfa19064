"""Notifications: subscriptions, the outbox of deliveries, and the events that fill it."""
