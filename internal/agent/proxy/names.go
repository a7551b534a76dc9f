package proxy

import (
	"fairway/internal/agent/names"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/settings"
	"fairway/internal/xdstype"
)

// newNames makes the part that resolves DNS, and subscribes to its table with the relay; nil if it is not configured.
func newNames(o settings.Options, r *relay.Relay) (*names.Server, error) {
	if o.Names == nil || r == nil {
		return nil, nil
	}
	table := names.NewTable(o.Bootstrap.Node.Domain)
	opts := *o.Names
	opts.Log = o.Log
	s, err := names.New(opts, table)
	if err != nil {
		return nil, settings.Usage("DNS_PROXY_ADDR: %w", err)
	}
	r.Subscribe(relay.Subscription{Type: xdstype.NameTableURL, Take: func(u relay.Update) error {
		changed := make([]names.Resource, len(u.Changed))
		for i, x := range u.Changed {
			changed[i] = names.Resource{Name: x.Name, Body: x.Body}
		}
		return table.Apply(changed, u.Removed)
	}})
	return s, nil
}

// describeNames returns the content of /debug/dnsz; nil if the agent does not resolve DNS.
func (a *agent) describeNames() any {
	if a.names == nil {
		return nil
	}
	return a.names.Status()
}
