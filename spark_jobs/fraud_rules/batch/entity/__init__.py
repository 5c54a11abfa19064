"""Everything about one value of a field, such as one payer: its payments, and each rule's aggregate of them."""
