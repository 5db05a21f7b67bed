"""What runs every policy: options, memory, ask and tell, arms that come and go, tickets, files, certainty, stopping."""
