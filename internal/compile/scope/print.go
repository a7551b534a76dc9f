package scope

import (
	"fmt"
	"strings"

	"fairway/internal/config"
)

func (k Key) String() string { return k.Layer.String() + " " + string(k.Host) }

func (k EgressKey) String() string { return fmt.Sprintf("%v %d", k.Layer, k.Index) }

func (k RuleKey) String() string {
	s := fmt.Sprintf("%s/%s exportTo=%s", k.Namespace, k.Host, k.ExportTo)
	if k.Clients != "" {
		s += " clients=" + string(k.Clients)
	}
	return s
}

// String describes a view on one line: the service's key and the rules.
func (s *HostView) String() string {
	var parts []string
	if s.Service != nil {
		parts = append(parts, "service="+s.Service.Key.Namespace+"/"+s.Service.Key.Object)
	}
	if len(s.VirtualServices) > 0 {
		names := make([]string, len(s.VirtualServices))
		for i, k := range s.VirtualServices {
			names[i] = named(k)
		}
		parts = append(parts, "routes="+strings.Join(names, ","))
	}
	if s.Rule != (RuleKey{}) {
		rule := "rule=" + s.Rule.Namespace + "/" + string(s.Rule.Host)
		if s.Rule.Clients != "" {
			rule += "{" + string(s.Rule.Clients) + "}"
		}
		parts = append(parts, rule)
	}
	if len(s.Egress) > 0 {
		parts = append(parts, fmt.Sprintf("egress=%v", s.Egress))
	}
	if s.Destination {
		parts = append(parts, "destination")
	}
	if s.Source != "" {
		parts = append(parts, "source="+s.Source)
	}
	return strings.Join(parts, " ")
}

// String counts the declarations of the host, and the rules for it.
func (h *host) String() string {
	return fmt.Sprintf("services=%d routes=%d rules=%d targets=%d", len(h.services), len(h.routes), len(h.rules), len(h.targets))
}

// String lists what a Sidecar imports, by listener.
func (a *reach) String() string {
	if !a.sidecar {
		return "namespace"
	}
	parts := make([]string, len(a.entries))
	for i, e := range a.entries {
		parts[i] = fmt.Sprintf("%d:%s/%s", e.Listener, e.Namespace, e.Host)
		if e.Exclude {
			parts[i] = "~" + parts[i]
		}
	}
	return strings.Join(parts, " ")
}

func (r *Rule) String() string {
	names := make([]string, len(r.Objects))
	for i, o := range r.Objects {
		names[i] = o.Name
	}
	subsets := make([]string, len(r.Spec.GetSubsets()))
	for i, s := range r.Spec.GetSubsets() {
		subsets[i] = s.GetName()
	}
	return fmt.Sprintf("objects=%s subsets=%s policy=%t", strings.Join(names, ","), strings.Join(subsets, ","),
		r.Spec.GetTrafficPolicy() != nil)
}

func named(k config.Key) string {
	if k == (config.Key{}) {
		return ""
	}
	return k.Namespace + "/" + k.Name
}
