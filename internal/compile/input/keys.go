package input

import (
	"fmt"
	"time"
)

// Keys says how the keys of token issuers (JWTRule.jwks_uri) are fetched. With the zero value none are fetched: every token that needs keys
// is refused.
type Keys struct {
	Fetched bool // the keys that are asked for are fetched into KeySets
	By      KeysBy
	Refresh time.Duration // how long those count that proxies fetch themselves
}

// KeysBy is who fetches keys: what PILOT_JWT_ENABLE_REMOTE_JWKS says.
type KeysBy uint8

// These values say which side fetches keys.
const (
	ControlPlane KeysBy = iota // istiod, or false
	Hybrid                     // a proxy if the address is a service's of the mesh, else the control plane; also true
	Proxies                    // envoy: only proxies
)

// ParseKeysBy reads the setting.
func ParseKeysBy(s string) (KeysBy, error) {
	switch s {
	case "istiod", "false":
		return ControlPlane, nil
	case "hybrid", "true":
		return Hybrid, nil
	case "envoy":
		return Proxies, nil
	}
	return ControlPlane, fmt.Errorf("%q is not one of istiod, hybrid, envoy, true, false", s)
}

// FetchesKeys reports whether the keys that are asked for are fetched.
func (t *Tables) FetchesKeys() bool { return t.opts.Keys.Fetched }

// KeysBy says which side fetches keys from addresses.
func (t *Tables) KeysBy() KeysBy { return t.opts.Keys.By }

// KeysRefresh returns how long keys count that proxies fetch.
func (t *Tables) KeysRefresh() time.Duration { return t.opts.Keys.Refresh }
