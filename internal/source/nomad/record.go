package nomad

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unique"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/platform"
)

// service names a service.
type service = platform.ServiceName

// key names a registration.
type key struct {
	service
	id string
}

func compareKey(a, b key) int { return cmp.Compare(a.id, b.id) }

// record holds the fields of a registration. It is comparable, and equal words are shared.
type record struct {
	of                           service
	id, address                  string
	port                         int
	datacenter, node, job, alloc string
	tags                         string // each ends with a line feed
	unreadable                   int    // tags that can be of no use, and were not kept
}

func newRecord(of service, r *api.ServiceRegistration) *record {
	var tags strings.Builder
	unreadable, kept := 0, 0
	for _, t := range r.Tags {
		k, v, pair := strings.Cut(t, "=")
		if !pair {
			k, v = "tag/"+t, "true"
		}
		switch {
		case strings.Contains(t, "\n"):
		case kept > platform.MaxLabels || t != "" && !platform.Readable(k, v, reserved...):
			unreadable++
		default:
			kept++
			tags.WriteString(t + "\n")
		}
	}
	return &record{
		of: of, id: r.ID, address: r.Address, port: r.Port, datacenter: shared(r.Datacenter), node: shared(r.NodeID), job: shared(r.JobID),
		alloc: r.AllocID, tags: shared(tags.String()), unreadable: unreadable,
	}
}

// Key implements platform.Record.
func (r *record) Key() key { return key{r.of, r.id} }

// Services implements platform.Record.
func (r *record) Services() []service { return []service{r.of} }

// Bytes implements platform.Record: words are held as they were read, in rows, and once more while rows are made.
func (r *record) Bytes() int64 {
	length := len(r.id) + len(r.address) + len(r.datacenter) + len(r.node) + len(r.job) + len(r.alloc) + len(r.tags)
	return platform.WordsCost(strings.Count(r.tags, "\n")+3, 3*length)
}

// Same implements platform.Record.
func (r *record) Same(o *record) bool { return *r == *o }

// shared returns the one copy of a word that many records have.
func shared(s string) string { return unique.Make(s).Value() }

// Labels of where an instance runs.
const (
	labelJob   = "nomad/job"
	labelAlloc = "nomad/alloc"
	labelNode  = "nomad/node"
)

// Tags that say how an instance is served, as key=value; others are labels. One without '=' is the label tag/<tag>, "true".
const (
	tagRegion  = "region"
	tagZone    = "zone"
	tagSubZone = "subzone"
	tagWeight  = "weight"
)

var reserved = []string{tagRegion, tagZone, tagSubZone, tagWeight}

// serviceOf builds a service from its registrations, which are sorted, and returns the problems of their tags. kind is the
// registry.
func serviceOf(kind string, of service, members []*record) (*platform.Service, []mesh.Problem) {
	out := &platform.Service{
		Name: of.Name, Namespace: of.Namespace, Meta: map[string]string{}, Instances: make([]platform.Instance, 0, len(members)),
	}
	var problems []mesh.Problem
	for _, r := range members {
		in := platform.Instance{
			ID: r.id, Addresses: []string{r.address}, Port: uint32(max(min(r.port, 1<<16), 0)), Labels: map[string]string{},
			Locality: mesh.Locality{Region: r.datacenter}, Unreadable: r.unreadable,
		}
		for tag := range strings.SplitSeq(strings.TrimSuffix(r.tags, "\n"), "\n") {
			k, v, pair := strings.Cut(tag, "=")
			switch {
			case tag == "":
			case !pair:
				in.Labels["tag/"+tag] = "true"
			case k == platform.MetaProtocol || k == platform.MetaPort || k == platform.MetaExportTo:
				if out.Meta[k] == "" {
					out.Meta[k] = v
				}
			case k == tagRegion:
				in.Locality.Region = v
			case k == tagZone:
				in.Locality.Zone = v
			case k == tagSubZone:
				in.Locality.SubZone = v
			case k == tagWeight:
				weight, err := strconv.ParseUint(v, 10, 32)
				if err != nil || weight == 0 {
					problems = append(problems, badWeight(kind, out, r.id, v))
					continue
				}
				in.Weight = uint32(weight)
			default:
				in.Labels[k] = v
			}
		}
		for _, l := range []struct{ name, value string }{{labelJob, r.job}, {labelAlloc, r.alloc}, {labelNode, r.node}} {
			if l.value != "" {
				in.Labels[l.name] = l.value
			}
		}
		out.Instances = append(out.Instances, in)
	}
	return out, problems[:min(len(problems), 1)]
}

func badWeight(kind string, s *platform.Service, id, text string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: kind, Namespace: shown(s.Namespace), Name: shown(s.Name)}, Field: "tags", Code: code.BadNumber,
		Severity: mesh.Error,
		Message:  fmt.Sprintf("the weight %q of instance %q is not a number above 0; it counts as 1", shown(text), shown(id)),
	}
}
