"""Labels of transactions: from files and from the topic `labels`, and with the marks in one file for what-ifs."""
