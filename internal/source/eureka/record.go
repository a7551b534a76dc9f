package eureka

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/platform"
)

// key names an instance.
type key struct{ app, id string }

func compareKey(a, b key) int { return cmp.Or(cmp.Compare(a.app, b.app), cmp.Compare(a.id, b.id)) }

// record holds the fields of an instance. It is comparable, and equal words are shared.
type record struct {
	key
	address          string
	port, secure     port
	status           string
	vips, secureVIPs string // comma separated
	metadata         string // packed
	center           string // the availability zone, from its data center
	unreadable       int    // metadata that can be of no use, and was not kept
	byVIP            bool   // its services are virtual addresses
	updated          number // when the server changed it last
}

// newRecord returns the record of an instance of an application; false: it has no name. by says what a service is.
func newRecord(by, app string, in *instance) (*record, bool) {
	id := cmp.Or(in.ID, in.Center.Metadata["instance-id"], in.Host)
	unreadable := 0
	for _, k := range slices.Sorted(maps.Keys(in.Metadata)) {
		if k != "" && !platform.Readable(k, in.Metadata[k], metaZone, metaRegion, metaWeight) ||
			len(in.Metadata) > platform.MaxLabels+20 && !slices.Contains(understood, k) {
			delete(in.Metadata, k)
			unreadable++
		}
	}
	r := &record{
		key: key{shared(app), id}, address: cmp.Or(in.Address, in.Host), port: in.Port, secure: in.SecurePort,
		status: shared(in.Status), vips: shared(in.VIP), secureVIPs: shared(in.SecureVIP),
		metadata: shared(pack(in.Metadata)), unreadable: unreadable, byVIP: by == byVIP, updated: in.Updated,
	}
	if in.Center.Name == "Amazon" {
		r.center = shared(in.Center.Metadata["availability-zone"])
	}
	return r, app != "" && id != ""
}

// Key implements platform.Record.
func (r *record) Key() key { return r.key }

// Same implements platform.Record.
func (r *record) Same(o *record) bool {
	a := *r
	a.updated = o.updated
	return a == *o
}

// Bytes implements platform.Record: words are held twice, as they were read and in rows.
func (r *record) Bytes() int64 {
	length := len(r.id) + len(r.address) + len(r.status) + len(r.vips) + len(r.secureVIPs) + len(r.metadata)
	return platform.WordsCost(strings.Count(r.metadata, " ")/2, 2*length)
}

// understood is metadata that says how an instance is served.
var understood = []string{metaZone, metaRegion, metaWeight, platform.MetaProtocol, platform.MetaPort, platform.MetaExportTo}

// shared returns the one copy of a word that many records have.
func shared(s string) string { return unique.Make(s).Value() }

// pack writes metadata as one string, which records share.
func pack(w words) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(w)) {
		b.WriteString(strconv.Itoa(len(k)) + " " + strconv.Itoa(len(w[k])) + " " + k + w[k])
	}
	return b.String()
}

func unpack(s string) words {
	out := words{}
	for s != "" {
		k, rest, _ := strings.Cut(s, " ")
		v, rest, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(k)
		m, _ := strconv.Atoi(v)
		out[rest[:n]], s = rest[n:n+m], rest[n+m:]
	}
	return out
}

// maxVIPs is of how many virtual addresses an instance is at most.
const maxVIPs = 16

// Services implements platform.Record.
func (r *record) Services() []platform.ServiceName {
	if !r.byVIP {
		return []platform.ServiceName{{Name: r.app}}
	}
	var out []platform.ServiceName
	for _, list := range []struct {
		names string
		port  port
	}{{r.vips, r.port}, {r.secureVIPs, r.secure}} {
		if list.port == 0 {
			continue
		}
		for name := range strings.SplitSeq(list.names, ",") {
			of := platform.ServiceName{Name: strings.TrimSpace(name)}
			if of.Name != "" && len(out) < maxVIPs && !slices.Contains(out, of) {
				out = append(out, of)
			}
		}
	}
	return out
}

func names(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == name {
			return true
		}
	}
	return false
}

// Metadata keys that say how an instance is served. All other metadata become labels.
const (
	metaZone   = "zone"
	metaRegion = "region"
	metaWeight = "weight"
)

// health depends on the status alone, as in Eureka's own clients: the server replaces it by a status that was set from
// outside.
func (r *record) health() mesh.Health {
	switch r.status {
	case "UP":
		return mesh.Healthy
	case "DOWN":
		return mesh.Unhealthy
	case "OUT_OF_SERVICE":
		return mesh.Draining
	}
	return mesh.Unready
}

// serviceOf builds a service from its instances, which are sorted, and returns the problems of their metadata.
func (s *state) serviceOf(of platform.ServiceName, members []*record) (*platform.Service, []mesh.Problem) {
	name := of.Name
	out := &platform.Service{Name: name, Meta: map[string]string{}, Instances: make([]platform.Instance, 0, len(members))}
	var problems []mesh.Problem
	for _, r := range members {
		labels := unpack(r.metadata)
		for _, k := range []string{platform.MetaProtocol, platform.MetaPort, platform.MetaExportTo} {
			if v := labels[k]; v != "" && out.Meta[k] == "" {
				out.Meta[k] = v
			}
			delete(labels, k)
		}
		in := platform.Instance{
			ID: r.id, Addresses: []string{r.address}, Health: r.health(), Unreadable: r.unreadable,
			Locality: mesh.Locality{
				Region: cmp.Or(labels[metaRegion], s.region, regionOf(r.center)), Zone: cmp.Or(labels[metaZone], r.center),
			},
		}
		if text := labels[metaWeight]; text != "" {
			weight, err := strconv.ParseUint(text, 10, 32)
			if in.Weight = uint32(weight); (err != nil || weight == 0) && len(problems) == 0 {
				in.Weight = 0
				problems = append(problems, s.badWeight(name, r.id, text))
			}
		}
		for _, k := range []string{metaRegion, metaZone, metaWeight} {
			delete(labels, k)
		}
		in.Labels = labels
		plain, secure := r.port, r.secure
		if s.by == byVIP {
			in.ID = r.app + "/" + r.id
			if !names(r.vips, name) {
				plain = 0
			}
			if !names(r.secureVIPs, name) {
				secure = 0
			}
		}
		if plain != 0 {
			in.Ports = append(in.Ports, platform.Port{Number: uint32(plain)})
		}
		if secure != 0 {
			in.Ports = append(in.Ports, platform.Port{Name: "https", Number: uint32(secure), Protocol: "HTTPS"})
		}
		out.Instances = append(out.Instances, in)
	}
	return out, problems
}

func (s *state) badWeight(service, id, text string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: s.registry, Name: shown(service)}, Field: "metadata.weight",
		Code: code.BadNumber, Severity: mesh.Error,
		Message: fmt.Sprintf("the weight %q of instance %q is not a number above 0; it counts as 1", shown(text), shown(id)),
	}
}

// regionOf returns an availability zone's region at Amazon's: us-east-1c is of us-east-1.
func regionOf(zone string) string {
	trimmed := strings.TrimRight(zone, "abcdefghijklmnopqrstuvwxyz")
	if len(trimmed) == 0 || trimmed[len(trimmed)-1] < '0' || trimmed[len(trimmed)-1] > '9' {
		return ""
	}
	return trimmed
}
