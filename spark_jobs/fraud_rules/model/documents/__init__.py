"""The JSON documents of the output topics, from which docs/schemas follows.

A member of the type `X | Raw` holds an X that is encoded already. All times are epoch milliseconds. Consumers ignore
members that they do not know.
"""
