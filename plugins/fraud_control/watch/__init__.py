"""Monitors that raise alarms or events: stuck readers, the store, floods of alerts, changes of rules."""
