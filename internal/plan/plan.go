package plan

import "fairway/internal/mesh"

// Plan is what a change would do. Its JSON form is that of pilotctl plan -o json (docs/truth.md).
type Plan struct {
	// Namespace is set if the plan was made in a running control plane for a caller of one namespace: then it is about proxies and
	// objects of this namespace alone, and about no problem that depends on objects of others.
	Namespace string `json:"namespace,omitempty"`
	Connected int    `json:"connected"` // proxies
	Proxies   int    `json:"proxies"`   // that would be sent something, or lose something
	// Bytes are the bytes of all new resources, once for each proxy.
	Bytes     int        `json:"bytes"`
	Types     []Count    `json:"types"`
	Dangers   []Sentence `json:"dangers"`
	Changes   []Sentence `json:"changes"` // of requests and policies
	Resources []Resource `json:"resources"`
	// Asks are things that the change needs and the snapshot does not have: the plan shows the state without them.
	Asks    []string  `json:"asks"`
	Added   []Problem `json:"problemsAdded"`
	Removed []Problem `json:"problemsRemoved"`
	// NotPlanned counts objects that were there to plan and that the plan leaves out, such as Deployments.
	NotPlanned []KindCount `json:"notPlanned,omitempty"`
}

// KindCount is a number of objects of a kind.
type KindCount struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// Count counts the resources of a type that would differ, each once for all proxies that see it alike.
type Count struct {
	Type    string `json:"type"` // such as Cluster
	Added   int    `json:"added"`
	Changed int    `json:"changed"`
	Removed int    `json:"removed"`
}

// Sentence is a statement about some proxies.
type Sentence struct {
	Text    string   `json:"text"`
	Proxies int      `json:"proxies"`
	Some    []string `json:"some"` // the first of them
}

// Resource is a resource that would differ for some proxies.
type Resource struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Change  string   `json:"change"` // added, changed or removed
	Proxies int      `json:"proxies"`
	Some    []string `json:"some"`
	// Fields are the fields that differ, at most MostFields; none of a Secret, and of resources that come or go.
	Fields []Field `json:"fields,omitempty"`
}

// Problem is a problem of an object.
type Problem struct {
	Severity mesh.Severity `json:"severity"`
	Code     string        `json:"code"`
	Text     string        `json:"text"`
}

// Empty reports whether the change would do nothing.
func (p *Plan) Empty() bool {
	return p.Proxies == 0 && len(p.Dangers)+len(p.Resources)+len(p.Added)+len(p.Removed) == 0
}

// someProxies is how many proxies are named.
const someProxies = 5
