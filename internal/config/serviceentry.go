package config

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// checkServiceEntry holds the rules of https://istio.io/latest/docs/reference/config/networking/service-entry/ that the schema cannot say.
func checkServiceEntry(c *check, se *networking.ServiceEntry) {
	at := c.spec()
	seen := map[string]bool{}
	for i, h := range se.Hosts {
		here := at.of("hosts", i)
		if h == "*" {
			c.fail(here, "BadHost", `a service cannot be "*"`, "name a host, or a wildcard such as *.example.com")
		} else {
			c.host(here, h)
		}
		if seen[h] {
			c.warn(here, "Duplicate", "host "+quote(h)+" is written twice", "")
		}
		seen[h] = true
	}
	if len(se.Hosts) == 0 {
		c.fail(at.key("hosts"), "Missing", "the service has no hosts", "")
	}
	checkServiceAddresses(c, at, se)
	checkServicePorts(c, at, se.Ports)
	checkResolution(c, at, se)
	export := at.key("exportTo")
	c.exportTo(&export, se.ExportTo)
	selector := at.key("workloadSelector")
	c.selector(&selector, se.WorkloadSelector.GetLabels())
}

func checkServiceAddresses(c *check, at *path, se *networking.ServiceEntry) {
	for i, a := range se.Addresses {
		here := at.of("addresses", i)
		switch {
		case !isCIDR(a):
			c.fail(here, "BadAddress", quote(a)+" is not an address or CIDR", "write 10.1.2.3 or 10.1.2.0/24")
		case strings.Contains(a, "/") && se.Resolution != networking.ServiceEntry_NONE && se.Resolution != networking.ServiceEntry_STATIC:
			c.fail(here, "BadAddress", "a CIDR goes with resolution NONE or STATIC, not "+se.Resolution.String(), "write single addresses")
		}
	}
}

func checkServicePorts(c *check, at *path, ports []*networking.ServicePort) {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	if len(ports) == 0 {
		c.warn(*at, "NoPort", "the service has no ports: nothing can reach it", "add spec.ports")
	}
	for i, p := range ports {
		here := at.of("ports", i)
		c.port(here.key("number"), p.Number)
		if p.TargetPort != 0 {
			c.port(here.key("targetPort"), p.TargetPort)
		}
		if p.Protocol != "" {
			c.protocol(here.key("protocol"), p.Protocol)
		}
		switch {
		case p.Name == "":
			c.fail(here.key("name"), "Missing", "the port has no name", "name it after its protocol: http, https")
		case names[p.Name]:
			c.fail(here.key("name"), "Duplicate", "port name "+quote(p.Name)+" is used twice", "give it another name")
		}
		if numbers[p.Number] {
			c.fail(here.key("number"), "Duplicate", fmt.Sprintf("port %d is written twice", p.Number), "keep one of the two")
		}
		names[p.Name], numbers[p.Number] = true, true
	}
}

// checkResolution: what endpoints a way of resolution takes.
func checkResolution(c *check, at *path, se *networking.ServiceEntry) {
	if se.WorkloadSelector != nil && len(se.Endpoints) > 0 {
		c.fail(at.key("workloadSelector"), "Conflict", "workloadSelector and endpoints exclude each other", "keep one of the two")
	}
	switch se.Resolution {
	case networking.ServiceEntry_NONE:
		if len(se.Endpoints) > 0 {
			c.fail(
				at.key("endpoints"),
				"Conflict",
				"resolution NONE goes where the client meant to: endpoints are not used",
				"write resolution STATIC or DNS",
			)
		}
	case networking.ServiceEntry_STATIC:
		if len(se.Endpoints) == 0 && se.WorkloadSelector == nil {
			c.warn(
				*at,
				"NoEndpoints",
				"resolution STATIC without endpoints or workloadSelector: requests to it fail",
				"add endpoints, a workloadSelector, or write resolution DNS",
			)
		}
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		checkDNS(c, at, se)
	}
	for i, e := range se.Endpoints {
		here := at.of("endpoints", i)
		checkEndpoint(c, &here, se, e)
	}
}

func checkDNS(c *check, at *path, se *networking.ServiceEntry) {
	if len(se.Endpoints) == 0 && se.WorkloadSelector == nil {
		for i, h := range se.Hosts {
			if strings.HasPrefix(h, "*") {
				c.fail(
					at.of("hosts", i),
					"BadHost",
					"a wildcard cannot be resolved by DNS",
					"add endpoints, name the host, or write resolution NONE",
				)
			}
		}
	}
	if se.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN && len(se.Endpoints) > 1 {
		c.fail(at.key("endpoints"), "TooMuch", "resolution DNS_ROUND_ROBIN resolves one name", "keep one endpoint, or write resolution DNS")
	}
}

func checkEndpoint(c *check, at *path, se *networking.ServiceEntry, e *networking.WorkloadEntry) {
	switch unix := strings.HasPrefix(e.Address, "unix://"); {
	case unix && len(se.Ports) != 1:
		c.fail(at.key("address"), "BadAddress", "a unix socket serves exactly one port of the service", "")
	case !unix && se.Resolution == networking.ServiceEntry_STATIC && e.Address != "" && !isIP(e.Address):
		c.fail(
			at.key("address"),
			"BadAddress",
			quote(e.Address)+" is not an IP address, which resolution STATIC needs",
			"write an address, or resolution DNS",
		)
	}
	checkWorkload(c, at, e)
	ports := at.key("ports")
	for _, name := range sortedKeys(e.Ports) {
		if !hasPort(se.Ports, name) {
			c.fail(ports.key(name), "UnknownPort", "the service has no port named "+quote(name), "write a name of spec.ports")
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
