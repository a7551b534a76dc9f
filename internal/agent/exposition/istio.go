package exposition

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"fairway/internal/envoy/caller"
	"fairway/internal/identity"
)

// Workload describes one end of a request in the mesh's metrics (istio.io/docs/reference/config/metrics). Empty fields are not known.
type Workload struct {
	Name, Namespace   string
	App, Version      string
	Service, Revision string // canonical
	Cluster           string
}

// Claim returns the workload as its proxy describes it to the servers that it calls.
func (w Workload) Claim() caller.Claim {
	return caller.Claim{Workload: w.Name, App: w.App, Version: w.Version, Service: w.Service, Revision: w.Revision, Cluster: w.Cluster}
}

// Istio gives a source's metrics the names and labels of Istio's dashboards. Envoy's stats access logger writes its counters as
// envoy_istio_requests_total (its names must begin with envoy_), with the few labels that differ from request to request; own is
// the workload of that Envoy. Counters of a logger that another party configured have no reporter, and keep their labels.
func Istio(own Workload) Rewrite {
	return func(name, rest string) (string, string) {
		metric, ok := strings.CutPrefix(name, "envoy_istio_")
		if !ok {
			return name, rest
		}
		if block, value, ok := labelBlock(rest); ok {
			if raw := parseLabels(block); raw["reporter"] != "" {
				rest = "{" + own.labels(raw) + "}" + value
			}
		}
		return "istio_" + metric, rest
	}
}

// labelBlock takes `{a="b"} 1` apart. A brace within a value is not an end: only the last one is.
func labelBlock(rest string) (block, value string, ok bool) {
	end := strings.LastIndexByte(rest, '}')
	if !strings.HasPrefix(rest, "{") || end < 0 {
		return "", "", false
	}
	return rest[1:end], rest[end+1:], true
}

// parseLabels reads `a="b",c="d"`; values keep their escapes.
func parseLabels(block string) map[string]string {
	out := make(map[string]string, 12)
	for block != "" {
		name, rest, _ := strings.Cut(block, "=")
		end, ok := endOfQuoted(rest)
		if !ok {
			return out
		}
		out[name] = rest[1 : end-1]
		block = strings.TrimPrefix(rest[end:], ",")
	}
	return out
}

// ours are the tags of Envoy's own counters; other labels are added by a Telemetry, or replace Istio's.
var ours = map[string]bool{
	"reporter": true, "request_protocol": true, "response_code": true, "grpc_response_status": true, "response_flags": true,
	"source_principal": true, "destination_principal": true, "services": true, "peer": true, "caller": true, "le": true,
	caller.WithoutTag: true,
}

// labels writes the whole set, with both ends in Istio's words.
func (w Workload) labels(raw map[string]string) string {
	var b strings.Builder
	done := map[string]bool{"": true}
	for name := range strings.SplitSeq(raw[caller.WithoutTag], ",") {
		done[name] = true
	}
	put := func(name, value string) {
		if other, said := raw[name]; said && !ours[name] {
			value = other // by a Telemetry
		}
		if done[name] {
			return
		}
		done[name] = true
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
		b.WriteString(`="`)
		b.WriteString(cmp.Or(value, "unknown"))
		b.WriteByte('"')
	}
	source, destination, security := w, peer(raw), "unknown"
	if raw["reporter"] == "destination" {
		source, destination, security = client(raw), w, "none"
		if raw["source_principal"] != "" {
			security = "mutual_tls"
		}
	}
	s := servedBy(raw["services"])
	destination.Namespace = cmp.Or(destination.Namespace, s.Namespace)
	put("reporter", raw["reporter"])
	source.put("source", raw["source_principal"], put)
	destination.put("destination", raw["destination_principal"], put)
	put("destination_service", s.Host)
	put("destination_service_name", s.Name)
	put("destination_service_namespace", cmp.Or(s.Namespace, destination.Namespace))
	put("request_protocol", raw["request_protocol"])
	if code, ok := raw["response_code"]; ok {
		put("response_code", code)
	}
	if status := raw["grpc_response_status"]; status != "" {
		put("grpc_response_status", status)
	}
	put("response_flags", raw["response_flags"])
	put("connection_security_policy", security)
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !ours[name] {
			put(name, raw[name])
		}
	}
	if le, ok := raw["le"]; ok {
		put("le", le)
	}
	return b.String()
}

func (w Workload) put(side, principal string, put func(name, value string)) {
	put(side+"_workload", w.Name)
	put(side+"_workload_namespace", w.Namespace)
	put(side+"_principal", principal)
	put(side+"_app", w.App)
	put(side+"_version", w.Version)
	put(side+"_canonical_service", w.Service)
	put(side+"_canonical_revision", w.Revision)
	put(side+"_cluster", w.Cluster)
}

// peer returns the server, as its endpoint describes it: "workload;namespace;canonical name;canonical revision;cluster".
func peer(raw map[string]string) Workload {
	parts := append(strings.Split(raw["peer"], ";"), make([]string, 5)...)
	return Workload{
		Name:      cmp.Or(parts[0], parts[2]),
		Namespace: cmp.Or(parts[1], namespaceOf(raw["destination_principal"])),
		App:       parts[2],
		Version:   parts[3],
		Service:   parts[2],
		Revision:  parts[3],
		Cluster:   parts[4],
	}
}

// client returns the client. Its certificate proves the namespace. If it has shown a certificate, the rest is taken from what its
// proxy claims (not for connections that are not HTTP).
func client(raw map[string]string) Workload {
	principal := raw["source_principal"]
	if principal == "" {
		return Workload{}
	}
	c, _ := caller.Parse(raw["caller"])
	return Workload{
		Namespace: namespaceOf(principal),
		Name:      c.Workload,
		App:       c.App,
		Version:   c.Version,
		Service:   c.Service,
		Revision:  c.Revision,
		Cluster:   c.Cluster,
	}
}

// namespaceOf returns the namespace of an identity of the mesh, or "" if it is none.
func namespaceOf(principal string) string {
	id, err := identity.Parse(principal)
	if err != nil {
		return ""
	}
	return id.Namespace
}

type service struct{ Host, Name, Namespace string }

// servedBy returns the service of the cluster that took the request; the first if several are behind one port.
func servedBy(escaped string) service {
	var list []service
	if json.Unmarshal([]byte(strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(escaped)), &list) != nil || len(list) == 0 {
		return service{}
	}
	return list[0]
}
