package rule

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/config/report"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Check collects the problems of a kind's rules. A rule that Istio enforces is an Error; a setting that Istio accepts, but that cannot work
// as written, is a Warning.
type Check struct {
	Of     Metadata // of the object that is checked
	report *report.Report
}

// Metadata is the part of an object that rules may read in addition to its specification; it is empty for objects without metadata, such as
// the mesh configuration.
type Metadata struct {
	Namespace   string
	Annotations map[string]string
}

// New returns a Check of an object. Its problems go to r.
func New(r *report.Report, of Metadata) *Check { return &Check{of, r} }

// Fail notes an Error.
func (c *Check) Fail(at report.Path, code, message, fix string) {
	c.report.FailAt(at, code, message, fix)
}

// Warn notes a Warning.
func (c *Check) Warn(at report.Path, code, message, fix string) {
	c.report.Add(at.String(), code, mesh.Warning, message, fix)
}

// IsIP reports whether a text is an address without a prefix.
func IsIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// IsCIDR reports whether a text is an address or a prefix.
func IsCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil || IsIP(s)
}

// Port checks a required port number.
func (c *Check) Port(at report.Path, number uint32) {
	if number < 1 || number > 65535 {
		c.Fail(at, code.BadPort, fmt.Sprintf("%d is not a port", number), "write a number from 1 to 65535")
	}
}

// Percent checks a number from 0 to 100.
func (c *Check) Percent(at report.Path, v float64) {
	if !(v >= 0 && v <= 100) {
		c.Fail(at, code.BadPercent, fmt.Sprintf("%v is not a percentage", v), "write a number from 0 to 100")
	}
}

// Duration checks that a duration, if it is set, is at least least, and whole milliseconds, because proxies count in these.
func (c *Check) Duration(at report.Path, d *durationpb.Duration, least time.Duration) {
	switch {
	case d == nil:
	case d.CheckValid() != nil || d.AsDuration() < least:
		c.Fail(at, code.BadDuration, d.AsDuration().String()+" is too short", "write "+least.String()+" or more")
	case d.AsDuration()%time.Millisecond != 0:
		c.Fail(at, code.BadDuration, d.AsDuration().String()+" is not a whole number of milliseconds", "write whole milliseconds")
	}
}

// ExportTo checks a list of namespaces that may see an object: names, "." and "*". If nobody is true, "~" is allowed too: a ServiceEntry
// may be exported to no namespace.
func (c *Check) ExportTo(at *report.Path, list []string, nobody bool) {
	seen := map[string]bool{}
	for i, ns := range list {
		here := at.At(i)
		if ns == "." && c.Of.Namespace != "" {
			ns = c.Of.Namespace // the list must not have both
		}
		switch {
		case ns == "~" && !nobody:
			c.Fail(here, code.BadExportTo, `"~" is for ServiceEntries alone`, `write a namespace's name, "." or "*"`)
		case ns == "*" || ns == "." || ns == "~":
			if ns != "." && len(list) > 1 {
				c.Fail(here, code.BadExportTo, strconv.Quote(ns)+" must be the only entry", "leave the others out")
			}
		case len(validation.IsDNS1123Label(ns)) > 0:
			c.Fail(here, code.BadExportTo, strconv.Quote(ns)+" is not a namespace", `write a namespace's name, "." or "*"`)
		}
		if seen[ns] {
			c.Fail(here, code.Duplicate, strconv.Quote(ns)+" is written twice", "keep one of the two")
		}
		seen[ns] = true
	}
}

// Selector checks the labels of a selector, which it has in a field: they may not be wildcards or empty names.
func (c *Check) Selector(at *report.Path, field string, labels map[string]string) {
	below := at.Key(field)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case k == "":
			c.Fail(*at, code.BadLabel, "a label without a name", "")
		case strings.Contains(k, "*") || strings.Contains(labels[k], "*"):
			c.Fail(below.Key(k), code.BadLabel, "a selector has no wildcards", "write the label as the workloads have it")
		}
	}
}

// OneOf checks a word against a list that only proto comments hold.
func OneOf(s string, list ...string) bool {
	for _, l := range list {
		if strings.EqualFold(s, l) {
			return true
		}
	}
	return false
}

// HeaderName checks the name of a header by RFC 9110, section 5.1; Envoy also knows pseudo headers by a leading colon.
func (c *Check) HeaderName(at report.Path, name string) {
	if name == "" {
		c.Fail(at, code.BadHeader, "a header without a name", "")
		return
	}
	for _, r := range strings.TrimPrefix(name, ":") {
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			c.Fail(at, code.BadHeader, strconv.Quote(name)+" is not a header's name", "write letters, digits and '-'")
			return
		}
	}
}
