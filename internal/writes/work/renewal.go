package work

import (
	"crypto/x509"
	"time"
)

// RenewIn returns for how long a certificate need not be replaced: until half of its life is over. Negative: it has to be replaced now.
func RenewIn(c *x509.Certificate, now time.Time) time.Duration {
	return c.NotAfter.Sub(now) - c.NotAfter.Sub(c.NotBefore)/2
}
