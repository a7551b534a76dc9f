package way

import "slices"

// Answer is what the proxy does with a request.
type Answer struct {
	// Ways are the ways that the request may take, the most probable first.
	Ways []Way
	// Truncated reports whether there are more ways.
	Truncated bool
}

// Way is one way that the request may take.
type Way struct {
	// Probability is the product of the known chances on the way. The probabilities of the ways that have the same conditions add up to 1.
	Probability float64
	// Conditions are what must hold for this way, if the interpreter cannot know it.
	Conditions []string
	// Doubts are reasons why the way may differ from what Envoy does, such as a filter that may change the request.
	Doubts  []string
	Steps   []Step
	Outcome Outcome
}

// Step is one decision.
type Step struct {
	Stage    string // such as "listener" or "route"
	Resource string // name of the resource that decides
	Part     string // index or name within the resource
	Decision string
	Passed   []Passed // the alternatives that have precedence and did not match
	// Objects are the users' objects that the part was made from, as the metadata of the part (filter_metadata.istio, config) names them.
	Objects []string
	// Type and Name are those of the resource that decides, if it is of one of these types.
	Type ResourceType
	Name string
}

// ResourceType is the type of a resource that decides.
type ResourceType uint8

// The types of resources.
const (
	OtherResource ResourceType = iota
	Listener
	VirtualHost
	Cluster
)

// By sets the resource that decides.
func (s *Step) By(t ResourceType, name string) *Step {
	s.Type, s.Name = t, name
	return s
}

// Passed is an alternative that did not match, and the reason.
type Passed struct{ Part, Reason string }

// Kind is the kind of an outcome.
type Kind uint8

// The kinds of outcomes.
const (
	Unknown   Kind = iota // Reason says what is missing
	Answered              // the proxy itself answers
	Forwarded             // a cluster gets the request, or the connection
	Closed                // the connection is closed
)

// Outcome is the end of a way.
type Outcome struct {
	Kind   Kind
	Reason string // of Unknown and Closed

	Status   int    // of an answer
	Flag     string // response flag of the access log, such as NR
	Details  string // response code details, such as route_not_found
	Location string // of a redirect
	// GRPC reports whether the client gets the answer as a gRPC status, with HTTP status 200.
	GRPC bool

	Cluster         string // that the request is forwarded to
	TCP             bool   // a connection is forwarded, not a request
	Authority, Path string // as the upstream sees them; empty: not known
	Endpoints       []Endpoint
	Balancer        string // the policy that picks among the endpoints
}

// Endpoint is an endpoint that may be picked.
type Endpoint struct {
	Address  string // "10.0.0.1:8080", or the path of a socket
	Health   string
	Locality string
	Priority uint32
	// Share is the part of requests that the endpoint gets in the long run, if the policy goes by weights.
	Share float64
}

// add adds a way. Ways with the same answer of the proxy are one way: the choices before it did not matter.
func (a *Answer) add(w Way) {
	for i := range a.Ways {
		other := &a.Ways[i]
		if w.Outcome.Kind != Forwarded && w.Outcome.same(other.Outcome) &&
			slices.Equal(w.Conditions, other.Conditions) && slices.Equal(w.Doubts, other.Doubts) {
			other.Probability += w.Probability
			return
		}
	}
	a.Ways = append(a.Ways, w)
}

func (o Outcome) same(p Outcome) bool {
	return o.Kind == p.Kind && o.Status == p.Status && o.Flag == p.Flag && o.Details == p.Details && o.Location == p.Location &&
		o.Cluster == p.Cluster && o.Path == p.Path && o.Authority == p.Authority && o.Reason == p.Reason
}
