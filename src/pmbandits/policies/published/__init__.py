"""Published bandits, one file for each. UCFW, MixtureUCB, MixtureGreedy look for a mixture, all others for one arm."""
