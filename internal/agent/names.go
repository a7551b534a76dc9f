package agent

import (
	"strconv"
	"strings"

	"fairway/internal/agent/names"
	"fairway/internal/agent/relay"
	nametable "fairway/internal/envoy/names"
)

// resolveNames decides whether the agent resolves DNS for the workload: ISTIO_META_DNS_CAPTURE, which tells the control
// plane too, and makes the kernel's rules send questions here (`pilot-agent iptables`). DNS_PROXY_ADDR is where it
// listens, DNS_LOCAL_NAMES which names may stand for this machine.
func resolveNames(env Environment, o *Options) error {
	const capture = metaPrefix + "DNS_CAPTURE"
	said := env.Vars[capture]
	if said == "" {
		return nil
	}
	on, err := strconv.ParseBool(said)
	if err != nil {
		return usage("%s: %q is neither true nor false", capture, said)
	}
	if on {
		o.Names = &names.Options{
			Listen:     env.Vars["DNS_PROXY_ADDR"],
			LocalNames: strings.FieldsFunc(env.Vars["DNS_LOCAL_NAMES"], func(r rune) bool { return r == ',' || r == ' ' }),
		}
	}
	return nil
}

// newNames makes the part that resolves DNS, and has the relay keep its table; nil where there is none.
func newNames(o Options, r *relay.Relay) (*names.Server, error) {
	if o.Names == nil || r == nil {
		return nil, nil
	}
	table := names.NewTable(o.Bootstrap.Node.Domain)
	opts := *o.Names
	opts.Log = o.Log
	s, err := names.New(opts, table)
	if err != nil {
		return nil, usage("DNS_PROXY_ADDR: %w", err)
	}
	r.Subscribe(relay.Subscription{Type: nametable.Type, Take: func(u relay.Update) error {
		changed := make([]names.Resource, len(u.Changed))
		for i, x := range u.Changed {
			changed[i] = names.Resource{Name: x.Name, Body: x.Body}
		}
		return table.Apply(changed, u.Removed)
	}})
	return s, nil
}

// describeNames is /debug/dnsz; nil where the agent does not resolve DNS.
func (a *agent) describeNames() any {
	if a.names == nil {
		return nil
	}
	return a.names.Status()
}
