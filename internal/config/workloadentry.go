package config

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// checkWorkloadEntry holds the rules of https://istio.io/latest/docs/reference/config/networking/workload-entry/ that
// the schema cannot say.
func checkWorkloadEntry(c *check, we *networking.WorkloadEntry) {
	checkWorkload(c, c.spec(), we)
}

// checkWorkload is for a workload by itself, inside a ServiceEntry, and as a WorkloadGroup's template.
func checkWorkload(c *check, at *path, we *networking.WorkloadEntry) {
	address := at.key("address")
	switch {
	case we.Address == "":
		if we.Network == "" {
			c.fail(address, "Missing", "the workload has no address", "write its address; only a workload of another network may have none")
		}
	case strings.HasPrefix(we.Address, "unix://"):
		checkUnix(c, address, we)
	case !isIP(we.Address) && !isDNSName(we.Address):
		c.fail(address, "BadAddress", quote(we.Address)+" is not an address", "write an IP address, a DNS name or unix:///path")
	}
	ports := at.key("ports")
	for _, name := range sortedKeys(we.Ports) {
		c.port(ports.key(name), we.Ports[name])
	}
	labels := at.key("labels")
	c.labels(&labels, we.Labels)
	if l := we.Locality; strings.Count(l, "/") > 2 || strings.HasPrefix(l, "/") || strings.Contains(l, "*") {
		c.fail(at.key("locality"), "BadLocality", quote(l)+" is not a locality", "write region/zone/subzone")
	}
}

func checkUnix(c *check, at path, we *networking.WorkloadEntry) {
	rest := strings.TrimPrefix(we.Address, "unix://")
	if !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "@") {
		c.fail(at, "BadAddress", quote(we.Address)+" is not an absolute path", "write unix:///path/to/socket")
	}
	if len(we.Ports) > 0 {
		c.fail(at, "Conflict", "a unix socket has no ports", "leave ports out")
	}
}
