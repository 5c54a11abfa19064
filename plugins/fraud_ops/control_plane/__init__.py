"""The rule control plane: where people write rules, approve them and see what they do.

`desk` is every read and change there is, over the database of `store`; `outbox` brings changes into the rule log,
`mirror` brings what others wrote there back, `cdc` takes in a rule table kept elsewhere; `lifecycle` and `roles`
decide and are pure. Nothing here knows what a rule means: `fraud_rules` alone judges rules.
"""
