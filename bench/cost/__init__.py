"""What a defence costs when nobody attacks: paired benign utility, token overhead, false quarantines."""
