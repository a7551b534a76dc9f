package traffic

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// WorkloadEntry holds the rules of https://istio.io/latest/docs/reference/config/networking/workload-entry/ that
// the schema cannot say.
func WorkloadEntry(c *rule.Check, we *networking.WorkloadEntry) {
	checkWorkload(c, report.Spec(), we)
}

// checkWorkload is for a workload by itself, inside a ServiceEntry, and as a WorkloadGroup's template.
func checkWorkload(c *rule.Check, at *report.Path, we *networking.WorkloadEntry) {
	address := at.Key("address")
	switch {
	case we.Address == "":
		if we.Network == "" {
			c.Fail(address, code.Missing, "the workload has no address",
				"write its address; only a workload of another network may have none")
		}
	case strings.HasPrefix(we.Address, "unix://"):
		checkUnix(c, address, we)
	case !rule.IsIP(we.Address) && !isDNSName(we.Address):
		c.Fail(address, code.BadAddress, strconv.Quote(we.Address)+" is not an address", "write an IP address, a DNS name or unix:///path")
	}
	ports := at.Key("ports")
	for _, name := range slices.Sorted(maps.Keys(we.Ports)) {
		c.Port(ports.Key(name), we.Ports[name])
	}
	labels := at.Key("labels")
	checkLabels(c, &labels, we.Labels)
	if l := we.Locality; strings.Count(l, "/") > 2 || strings.HasPrefix(l, "/") || strings.Contains(l, "*") {
		c.Fail(at.Key("locality"), code.BadLocality, strconv.Quote(l)+" is not a locality", "write region/zone/subzone")
	}
}

func checkUnix(c *rule.Check, at report.Path, we *networking.WorkloadEntry) {
	rest := strings.TrimPrefix(we.Address, "unix://")
	if !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "@") {
		c.Fail(at, code.BadAddress, strconv.Quote(we.Address)+" is not an absolute path", "write unix:///path/to/socket")
	}
	if len(we.Ports) > 0 {
		c.Fail(at, code.Conflict, "a unix socket has no ports", "leave ports out")
	}
}
