package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// ServiceEntry holds the rules of https://istio.io/latest/docs/reference/config/networking/service-entry/ that the schema cannot say.
func ServiceEntry(c *rule.Check, se *networking.ServiceEntry) {
	at := report.Spec()
	seen := map[string]bool{}
	for i, h := range se.Hosts {
		here := at.Of("hosts", i)
		if h == "*" {
			c.Fail(here, code.BadHost, `a service cannot be "*"`, "name a host, or a wildcard such as *.example.com")
		} else {
			checkHost(c, here, h)
		}
		if seen[h] {
			c.Warn(here, code.Duplicate, "host "+strconv.Quote(h)+" is written twice", "")
		}
		seen[h] = true
	}
	if len(se.Hosts) == 0 {
		c.Fail(at.Key("hosts"), code.Missing, "the service has no hosts", "")
	}
	checkServiceAddresses(c, at, se)
	checkServicePorts(c, at, se.Ports)
	checkResolution(c, at, se)
	export := at.Key("exportTo")
	c.ExportTo(&export, se.ExportTo, true)
	selector := at.Key("workloadSelector")
	c.Selector(&selector, "labels", se.WorkloadSelector.GetLabels())
}

func checkServiceAddresses(c *rule.Check, at *report.Path, se *networking.ServiceEntry) {
	for i, a := range se.Addresses {
		here := at.Of("addresses", i)
		switch {
		case !rule.IsCIDR(a):
			c.Fail(here, code.BadAddress, strconv.Quote(a)+" is not an address or CIDR", "write 10.1.2.3 or 10.1.2.0/24")
		case strings.Contains(a, "/") && se.Resolution != networking.ServiceEntry_NONE && se.Resolution != networking.ServiceEntry_STATIC:
			c.Fail(here, code.BadAddress, "a CIDR goes with resolution NONE or STATIC, not "+se.Resolution.String(),
				"write single addresses")
		}
	}
}

func checkServicePorts(c *rule.Check, at *report.Path, ports []*networking.ServicePort) {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	if len(ports) == 0 {
		c.Warn(*at, code.NoPort, "the service has no ports: nothing can reach it", "add spec.ports")
	}
	for i, p := range ports {
		here := at.Of("ports", i)
		c.Port(here.Key("number"), p.Number)
		if p.TargetPort != 0 {
			c.Port(here.Key("targetPort"), p.TargetPort)
		}
		if p.Protocol != "" {
			checkProtocol(c, here.Key("protocol"), p.Protocol)
		}
		switch {
		case p.Name == "":
			c.Fail(here.Key("name"), code.Missing, "the port has no name", "name it after its protocol: http, https")
		case names[p.Name]:
			c.Fail(here.Key("name"), code.Duplicate, "port name "+strconv.Quote(p.Name)+" is used twice", "give it another name")
		}
		if numbers[p.Number] {
			c.Fail(here.Key("number"), code.Duplicate, fmt.Sprintf("port %d is written twice", p.Number), "keep one of the two")
		}
		names[p.Name], numbers[p.Number] = true, true
	}
}

// checkResolution checks that the endpoints fit the resolution.
func checkResolution(c *rule.Check, at *report.Path, se *networking.ServiceEntry) {
	if se.WorkloadSelector != nil && len(se.Endpoints) > 0 {
		c.Fail(at.Key("workloadSelector"), code.Conflict, "workloadSelector and endpoints exclude each other", "keep one of the two")
	}
	switch se.Resolution {
	case networking.ServiceEntry_NONE:
		if len(se.Endpoints) > 0 {
			c.Fail(at.Key("endpoints"), code.Conflict, "resolution NONE goes where the client meant to: endpoints are not used",
				"write resolution STATIC or DNS")
		}
	case networking.ServiceEntry_STATIC:
		if len(se.Endpoints) == 0 && se.WorkloadSelector == nil {
			c.Warn(*at, code.NoEndpoints, "resolution STATIC without endpoints or workloadSelector: requests to it fail",
				"add endpoints, a workloadSelector, or write resolution DNS")
		}
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		checkDNS(c, at, se)
	case networking.ServiceEntry_DYNAMIC_DNS:
		checkDynamicDNS(c, at, se)
	}
	for i, e := range se.Endpoints {
		here := at.Of("endpoints", i)
		checkEndpoint(c, &here, se, e)
	}
}

func checkDNS(c *rule.Check, at *report.Path, se *networking.ServiceEntry) {
	if len(se.Endpoints) == 0 && se.WorkloadSelector == nil {
		for i, h := range se.Hosts {
			if strings.HasPrefix(h, "*") {
				c.Fail(at.Of("hosts", i), code.BadHost, "a wildcard cannot be resolved by DNS",
					"add endpoints, name the host, or write resolution NONE")
			}
		}
	}
	if se.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN && len(se.Endpoints) > 1 {
		c.Fail(at.Key("endpoints"), code.TooMuch, "resolution DNS_ROUND_ROBIN resolves one name",
			"keep one endpoint, or write resolution DNS")
	}
}

// checkDynamicDNS: the name in a request is resolved, so the protocol must have one, and the hosts are wildcards (service_entry.proto,
// Resolution.DYNAMIC_DNS).
func checkDynamicDNS(c *rule.Check, at *report.Path, se *networking.ServiceEntry) {
	for i, h := range se.Hosts {
		if !strings.HasPrefix(h, "*.") || len(h) < 3 {
			c.Fail(at.Of("hosts", i), code.BadHost, "resolution DYNAMIC_DNS is for wildcards", "write *.example.com, or resolution DNS")
		}
	}
	for i, p := range se.Ports {
		protocol, known := mesh.ParseProtocol(p.Protocol)
		if p.Protocol != "" && !known || protocol.IsHTTP() || protocol.IsTLS() {
			continue
		}
		has := ", which " + p.Protocol + " has not"
		if p.Protocol == "" {
			has = ", and the port does not say that it has one"
		}
		here := at.Of("ports", i)
		c.Fail(here.Key("protocol"), code.Conflict, "resolution DYNAMIC_DNS needs a Host header or a server name"+has,
			"write HTTP, HTTPS or TLS")
	}
	if len(se.Addresses) > 0 {
		c.Fail(at.Key("addresses"), code.Conflict, "resolution DYNAMIC_DNS goes by names: an address says none", "leave them out")
	}
	if len(se.Endpoints) > 0 {
		c.Warn(at.Key("endpoints"), code.Unused, "resolution DYNAMIC_DNS has no endpoints: they do nothing", "leave them out")
	}
	if se.WorkloadSelector != nil {
		c.Warn(at.Key("workloadSelector"), code.Unused, "resolution DYNAMIC_DNS selects no workloads: it does nothing", "leave it out")
	}
}

func checkEndpoint(c *rule.Check, at *report.Path, se *networking.ServiceEntry, e *networking.WorkloadEntry) {
	switch unix := strings.HasPrefix(e.Address, "unix://"); {
	case unix && se.Resolution != networking.ServiceEntry_STATIC:
		c.Fail(at.Key("address"), code.BadAddress, "a unix socket goes with resolution STATIC, not "+se.Resolution.String(), "")
	case unix && len(se.Ports) != 1:
		c.Fail(at.Key("address"), code.BadAddress, "a unix socket serves exactly one port of the service", "")
	case !unix && se.Resolution == networking.ServiceEntry_STATIC && e.Address != "" && !rule.IsIP(e.Address):
		c.Fail(at.Key("address"), code.BadAddress, strconv.Quote(e.Address)+" is not an IP address, which resolution STATIC needs",
			"write an address, or resolution DNS")
	}
	checkWorkload(c, at, e)
	ports := at.Key("ports")
	for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
		if !hasPort(se.Ports, name) {
			c.Fail(ports.Key(name), code.UnknownPort, "the service has no port named "+strconv.Quote(name), "write a name of spec.ports")
		}
	}
}

func hasPort(ports []*networking.ServicePort, name string) bool {
	for _, p := range ports {
		if p.Name == name {
			return true
		}
	}
	return false
}
