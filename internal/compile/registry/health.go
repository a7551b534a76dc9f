package registry

import (
	"cmp"
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// place is an address in a namespace: the report of an agent there counts only for the WorkloadEntries of that address.
type place struct{ namespace, address string }

func comparePlace(a, b place) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.address, b.address))
}

// health is what agents report of the applications beside them.
type health struct {
	in       *input.Tables
	verdicts *table.Table[config.Key, mesh.HealthVerdict]
}

func declareHealth(in *input.Tables) health {
	at := table.Group(in.Health.Table, "health/place", comparePlace, func(_ mesh.ProxyID, h mesh.HealthReport) []place {
		var out []place
		for address := range strings.SplitSeq(h.Proxy.IPs, ",") {
			out = append(out, place{h.Proxy.Namespace, address})
		}
		return out
	})
	said := table.Derive(in.WorkloadEntries, "health/said", config.CompareKey, table.Same[mesh.HealthVerdict],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, mesh.HealthVerdict)) {
			address := canonical(config.Spec[*networking.WorkloadEntry](o).GetAddress())
			rows, _ := table.Get(r, at, place{o.Namespace, address})
			if verdict, any := together(rows, o); any {
				emit(k, verdict)
			}
		})
	return health{in, said}
}

// together merges the reports on a WorkloadEntry: it fails if one report says so. any: there are reports.
func together(rows table.Rows[mesh.ProxyID, mesh.HealthReport], o *config.Object) (verdict mesh.HealthVerdict, any bool) {
	for _, report := range rows.All() {
		if !SpeaksFor(report, o) {
			continue
		}
		if !report.Healthy {
			return mesh.HealthVerdict{Detail: report.Detail}, true
		}
		any = true
	}
	return mesh.HealthVerdict{Healthy: any}, any
}

// ready reports whether the application of a WorkloadEntry may be sent traffic. If agents report on it here, none of them may say that it
// fails. If they report to another control plane, its result counts. If no agent reports, the application is ready, unless the entry is
// known to be checked. For a time after a start, while agents reconnect, a checked one counts as ready too, so that a new control plane
// cuts off no workload.
func (h health) ready(r *table.Reader, o *config.Object) bool {
	if verdict, said := table.Get(r, h.verdicts, o.Key); said {
		return verdict.Healthy
	}
	if healthy, stored := table.Get(r, h.in.HealthStored.Table, o.Key); stored {
		return healthy
	}
	if !h.checked(r, o) {
		return true
	}
	heard, _ := table.Get(r, h.in.HealthReady.Table, struct{}{})
	return !heard
}

// checked reports whether an agent has to confirm the entry's health before it takes traffic.
func (h health) checked(r *table.Reader, o *config.Object) bool {
	if strings.EqualFold(o.Annotations[config.CheckedAnnotation], "true") {
		return true
	}
	name := o.Annotations[config.GroupAnnotation]
	if name == "" {
		return false
	}
	group, ok := table.Get(r, h.in.WorkloadGroups, config.Key{Kind: config.WorkloadGroup, Namespace: o.Namespace, Name: name})
	return ok && config.Spec[*networking.WorkloadGroup](group).GetProbe() != nil
}

// SpeaksFor reports whether the report of a proxy's agent counts for a WorkloadEntry: the proxy is at the entry's address, in its namespace
// and network, has its service account, and does not name another entry as its own. The addresses are the proxy's own statement; so if the
// entry names no service account, the report must also have come from the entry's address.
func SpeaksFor(report mesh.HealthReport, o *config.Object) bool {
	p, spec := report.Proxy, config.Spec[*networking.WorkloadEntry](o)
	address := canonical(spec.GetAddress())
	if p.Namespace != o.Namespace || p.Workload != "" && p.Workload != o.Name || !hasAddress(p, address) {
		return false
	}
	if a, b := spec.GetNetwork(), p.Network; a != "" && b != "" && a != b {
		return false
	}
	if account := spec.GetServiceAccount(); account != "" {
		return config.IsAccount(account, p.Namespace, p.ServiceAccount)
	}
	return p.Standing == mesh.Here || report.From.String() == address
}

func hasAddress(p mesh.Proxy, address string) bool {
	for own := range strings.SplitSeq(p.IPs, ",") {
		if own == address {
			return true
		}
	}
	return false
}

// canonical formats an IP in the way of proxies' addresses. It returns other texts unchanged.
func canonical(address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		return a.String()
	}
	return address
}
