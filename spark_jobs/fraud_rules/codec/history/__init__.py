"""Files of past transactions, read as the records that a producer would send. Pure, apart from reading the file."""
