package app

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/writes/entries"
)

// machines has the machines of proxies registered that proved who they are, where a cluster is read.
type machines struct{ d *Discovery }

// Connected implements session.Machines.
func (m machines) Connected(p mesh.Proxy, group string) {
	if of, ok := m.of(p, group); ok {
		m.d.writes.Entries().Connected(of)
	}
}

// Disconnected implements session.Machines.
func (m machines) Disconnected(p mesh.Proxy, group string) {
	if of, ok := m.of(p, group); ok {
		m.d.writes.Entries().Disconnected(of)
	}
}

func (m machines) of(p mesh.Proxy, group string) (entries.Machine, bool) {
	address, _, _ := strings.Cut(p.IPs, ",")
	if m.d.writes == nil || p.Standing != mesh.Proven || address == "" {
		return entries.Machine{}, false
	}
	return entries.Machine{
		Namespace: p.Namespace, Group: group, Account: p.ServiceAccount, Address: address, Network: p.Network,
	}, true
}

// template is what a WorkloadGroup says of its machines.
func (d *Discovery) template(namespace, group string) (out entries.Template, ok bool) {
	var o *config.Object
	d.graph.Store.Read(func(tx *table.Tx) {
		o = d.graph.Object(tx, config.Key{Kind: config.WorkloadGroup, Namespace: namespace, Name: group})
	})
	if o == nil {
		return out, false
	}
	spec := config.Spec[*networking.WorkloadGroup](o)
	out.Labels = map[string]string{}
	maps.Copy(out.Labels, spec.GetTemplate().GetLabels())
	maps.Copy(out.Labels, spec.GetMetadata().GetLabels())
	out.Account = cmp.Or(spec.GetTemplate().GetServiceAccount(), "default")
	out.Notes, out.Checked = spec.GetMetadata().GetAnnotations(), spec.GetProbe() != nil
	out.UID = o.Stored.UID
	text, err := protojson.Marshal(spec.GetTemplate())
	if err == nil {
		err = json.Unmarshal(text, &out.Spec)
	}
	if err != nil {
		d.log.Error("a WorkloadGroup's template cannot be written", "group", group, "error", err)
		return out, false
	}
	if out.Spec == nil {
		out.Spec = map[string]any{}
	}
	out.Spec["labels"], out.Spec["serviceAccount"] = out.Labels, out.Account
	return out, true
}
