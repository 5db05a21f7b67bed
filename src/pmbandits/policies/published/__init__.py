"""Published bandits, one file for each. UCFW and MixtureUCB look for a mixture, all others for one arm."""
