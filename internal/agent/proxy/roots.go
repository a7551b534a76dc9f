package proxy

import (
	"errors"
	"fmt"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/identity"
	"fairway/internal/xdstype"
)

// errKept is why a bundle of roots from disk is refused: only the control plane itself may say which roots to trust.
var errKept = errors.New("only roots from the control plane are trusted")

// takesRoots reports whether the control plane may tell this agent which roots its workload trusts: the workload's certificate must be
// from the mesh's authority, and the control plane must have proved its identity on the stream, or the stream must stay on this machine.
func takesRoots(o settings.Options) bool {
	if o.Relay == nil || o.Secrets == nil || o.Secrets.Authority == nil {
		return false
	}
	for _, other := range o.Bootstrap.Others {
		if !o.Relay.Secure && !identity.OnThisMachine(other.Host) {
			return false
		}
	}
	return o.Relay.Secure || identity.OnThisMachine(o.Bootstrap.Discovery.Host)
}

// roots returns the subscription for the roots that the workload trusts.
func roots(s *secrets.Secrets) relay.Subscription {
	return relay.Subscription{Type: xdstype.BundleURL, Take: func(u relay.Update) error { return takeBundle(s, u) }}
}

func takeBundle(s *secrets.Secrets, u relay.Update) error {
	switch {
	case u.Kept:
		return errKept
	case len(u.Changed) > 1:
		return fmt.Errorf("%d bundles of roots; want one", len(u.Changed))
	case len(u.Changed) == 1:
		text, err := identity.DecodeBundle(u.Changed[0].Body)
		if err != nil {
			return err
		}
		return s.TakeBundle(text)
	case len(u.Removed) > 0:
		return s.ForgetBundle()
	}
	return s.ConfirmBundle()
}
