package authn

// Addresses is how many are remembered.
func (l *Limits) Addresses() int { return len(l.addresses.young) + len(l.addresses.old) }
