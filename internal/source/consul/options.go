package consul

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// Options are those of one Consul datacenter.
type Options struct {
	// Reach says which agents or servers are called; the token is Consul's ACL token.
	servers.Reach
	// Naming says how services are called. Host is "{name}.service.consul" if it is empty; {datacenter} may be in it.
	platform.Naming
	// Limits say how much is kept.
	platform.Limits
	// Missing says how long things stay that a Consul that lost its data does not list (yet); empty: 90s.
	platform.Missing
	// Datacenter is the one that is read; empty: the agent's own. Each datacenter is a registry of its own.
	Datacenter string `json:"datacenter,omitempty"`
	// Partition and ConsulNamespace are those of Consul Enterprise; empty: the default ones.
	Partition       string `json:"partition,omitempty"`
	ConsulNamespace string `json:"consulNamespace,omitempty"`
	// AllowStale lets any server answer, one too that does not lead, or has no leader.
	AllowStale bool `json:"allowStale,omitempty"`
	// Cached has the agent answer from its cache, which it keeps up to date itself.
	Cached bool `json:"cached,omitempty"`
	// TaggedAddress is the one of a service's tagged addresses that counts, as "wan"; empty: its address.
	TaggedAddress string `json:"taggedAddress,omitempty"`
	// MaxWatches is how many services are waited for at once; 0: 20000 over HTTP/2 (https URLs), 100 over HTTP/1.1, where
	// each costs a connection. Others are looked through when some service has changed.
	MaxWatches int `json:"maxWatches,omitempty"`
}

const (
	defaultHost = "{name}.service.consul"
	defaultKeep = 90 * time.Second
	mostWatches = 100_000
	mostWord    = 253
)

// Validate returns every mistake as an error.
func (o *Options) Validate() error {
	errs := []error{o.Reach.Validate(), o.Naming.Validate("datacenter"), o.Limits.Validate(), o.Missing.Validate()}
	for _, f := range []struct{ field, text string }{
		{"datacenter", o.Datacenter},
		{"partition", o.Partition},
		{"consulNamespace", o.ConsulNamespace},
		{"taggedAddress", o.TaggedAddress},
	} {
		if !printable.Is(f.text, mostWord) || strings.ContainsAny(f.text, " /?#&") {
			errs = append(errs, fmt.Errorf("%s: %q is not a name", f.field, printable.Text(f.text, printable.Short)))
		}
	}
	if o.AllowStale && o.Cached {
		errs = append(errs, errors.New("allowStale, cached: cached answers are as old as the agent allows; give one of them"))
	}
	if o.MaxWatches < 0 || o.MaxWatches > mostWatches {
		errs = append(errs, fmt.Errorf("maxWatches: %d; want 1 to %d, or none", o.MaxWatches, mostWatches))
	}
	return errors.Join(errs...)
}
