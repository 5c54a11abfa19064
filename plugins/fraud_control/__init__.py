"""The rule control plane: users write rules, approve them and see their effect.

`domain` has the values and the pure decisions (lifecycle, roles), `service` all reads and changes, over the database of
`store`. `sync` connects the store with the rule log: the outbox publishes changes, the mirror copies the records of
other writers back, and the CDC intake applies the changes of an external rule table. `feed` and `watch` observe the
detector, and `web` is the HTTP API. The control plane does not interpret rules: `fraud_rules` alone validates them.
"""
