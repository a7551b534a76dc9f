package caller

import (
	"strings"
)

// The places that hold a claim on its way.
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
	// Longest is the length of the longest valid claim. It limits how much a peer can make a server remember.
	Longest = parts*longestPart + parts - 1
)

// Form is a regular expression (RE2) that matches any text. If the text has the form of a claim, the first group holds it; otherwise the
// group is empty. Form does not check the length of parts: Envoy refuses a program of more than a hundred instructions unless its
// bootstrap allows more (runtime key re2.max_program_size.error_level).
const Form = `^((?:[\w.-]*;){5}[\w.-]*)$|^.*$`

// Claim describes a proxy's workload, in the terms of the mesh's metrics (istio.io/docs/reference/config/metrics). Empty fields are
// unknown. The namespace is not included, because the certificate holds it.
type Claim struct {
	Workload, App, Version string
	Service, Revision      string // canonical
	Cluster                string
}

// String returns the claim as it is sent. A part that is too long, or has characters other than [0-9A-Za-z_.-], is left empty.
func (c Claim) String() string {
	said := [parts]string{c.Workload, c.App, c.Version, c.Service, c.Revision, c.Cluster}
	for i, p := range said {
		if !isPlain(p) {
			said[i] = ""
		}
	}
	return strings.Join(said[:], separator)
}

// Parse parses a claim that a peer sent. If the text is not a claim, or a part of it is invalid, ok is false and the claim is empty.
func Parse(text string) (c Claim, ok bool) {
	said := strings.Split(text, separator)
	if len(said) != parts {
		return Claim{}, false
	}
	for _, p := range said {
		if !isPlain(p) {
			return Claim{}, false
		}
	}
	return Claim{said[0], said[1], said[2], said[3], said[4], said[5]}, true
}

func isPlain(part string) bool {
	for _, c := range []byte(part) {
		word := c == '_' || c == '.' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !word {
			return false
		}
	}
	return len(part) <= longestPart
}

// WithoutTag is the tag that lists the labels that Telemetry removes from a metric, each with a comma after it. The program that merges a
// proxy's metrics reads it (agent/exposition).
const WithoutTag = "without"
