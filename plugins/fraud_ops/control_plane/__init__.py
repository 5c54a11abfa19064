"""The rule control plane: users write rules, approve them and see their effect.

`desk` offers all reads and changes, over the database of `store`. `outbox` publishes changes to the rule log, `mirror`
copies records of other writers back, and `cdc` applies the changes of an external rule table. `lifecycle` and `roles`
decide and are pure. The control plane does not interpret rules: `fraud_rules` alone validates them.
"""
