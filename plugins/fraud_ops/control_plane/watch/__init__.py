"""Watches that raise alarms: readers that are stuck, the store, floods of alerts, changed rules."""
