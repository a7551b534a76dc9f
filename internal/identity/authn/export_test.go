package authn

// Addresses is how many are remembered.
func (l *Limits) Addresses() int { return l.addresses.Len() }
