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

// errKept is why a bundle of roots is not believed from the disk: only the control plane itself says whom to believe.
var errKept = errors.New("roots are believed from the control plane alone")

// takesRoots says whether the control plane may tell this agent whom its workload believes: where the workload's
// certificate is the mesh's authority's, and the stream is one on which the control plane has proved itself, or does
// not leave this machine.
func takesRoots(o settings.Options) bool {
	if o.Relay == nil || o.Secrets == nil || o.Secrets.Authority == nil {
		return false
	}
	return o.Relay.Secure || identity.OnThisMachine(o.Bootstrap.Discovery.Host)
}

// roots asks the control plane whom the workload believes.
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
