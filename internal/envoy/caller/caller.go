package caller

import (
	"strings"
)

// The places that a claim goes through.
const (
	Variable  = "FAIRWAY_CALLER"   // in an Envoy's environment
	Header    = "x-fairway-caller" // of requests between proxies
	Namespace = "fairway"          // of dynamic metadata
	Key       = "caller"           // in that namespace
)

const (
	parts       = 6
	longestPart = 63 // as labels of Kubernetes are
	separator   = ";"
	// Longest is the length of the longest claim that is believed. It bounds what a peer can have the other end remember.
	Longest = parts*longestPart + parts - 1
)

// Form is a regular expression (RE2) of what has the form of a claim, as its first group, or of anything else, without
// it. How long parts are is not in it: Envoy refuses a program of more than a hundred instructions where its bootstrap
// says nothing of that (runtime key re2.max_program_size.error_level).
const Form = `^((?:[\w.-]*;){5}[\w.-]*)$|^.*$`

// Claim is what a proxy says of its workload, in the words of the mesh's metrics
// (istio.io/docs/reference/config/metrics). Empty fields are not known. The namespace is not among them: the
// certificate tells it.
type Claim struct {
	Workload, App, Version string
	Service, Revision      string // canonical
	Cluster                string
}

// String is the claim as it is sent. What cannot be said, being too long or of other characters than [0-9A-Za-z_.-], is left out.
func (c Claim) String() string {
	said := [parts]string{c.Workload, c.App, c.Version, c.Service, c.Revision, c.Cluster}
	for i, p := range said {
		if !sayable(p) {
			said[i] = ""
		}
	}
	return strings.Join(said[:], separator)
}

// Parse reads what a peer sent. ok is false, and nothing is believed, where it is no claim or one of its parts could not have been said.
func Parse(text string) (c Claim, ok bool) {
	said := strings.Split(text, separator)
	if len(said) != parts {
		return Claim{}, false
	}
	for _, p := range said {
		if !sayable(p) {
			return Claim{}, false
		}
	}
	return Claim{said[0], said[1], said[2], said[3], said[4], said[5]}, true
}

func sayable(part string) bool {
	for _, c := range []byte(part) {
		word := c == '_' || c == '.' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !word {
			return false
		}
	}
	return len(part) <= longestPart
}

// WithoutTag is the tag by which a proxy tells whoever merges its metrics (agent/exposition) which labels one has not, each with a
// comma after it: Telemetry takes them away.
const WithoutTag = "without"
