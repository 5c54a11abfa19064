"""How commands show rules, alerts and status: tables and lines for people, JSON for programs."""
