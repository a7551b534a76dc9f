package compiletest

import (
	"errors"
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/xdstype"
)

// Ambiguous finds what Envoy would refuse in what some connected proxy sees: two virtual hosts of a route configuration
// with one domain, or virtual hosts of a route configuration that is not there.
func (w *World) Ambiguous() error {
	w.t.Helper()
	hosts, routes := w.ByProxy(xdstype.VirtualHosts), w.ByProxy(xdstype.Routes)
	for id := range hosts {
		if err := ambiguous(hosts[id], routes[id]); err != nil {
			return fmt.Errorf("proxy %s: %w", id, err)
		}
	}
	return nil
}

func ambiguous(hosts, routes map[string]*envoy.Encoded) error {
	owners := map[string]string{}
	for name, e := range hosts {
		var h routev3.VirtualHost
		if err := proto.Unmarshal(e.Body, &h); errors.Join(err, e.Err) != nil {
			return fmt.Errorf("%s: %w", name, errors.Join(err, e.Err))
		}
		config := name[:strings.LastIndexByte(name, '/')]
		if routes[config] == nil {
			return fmt.Errorf("%s belongs to a route configuration that is not there", name)
		}
		for _, d := range h.Domains {
			key := config + " " + d
			if other, taken := owners[key]; taken {
				return fmt.Errorf("%s and %s both have %s", name, other, d)
			}
			owners[key] = name
		}
	}
	for name, e := range routes {
		var c routev3.RouteConfiguration
		if err := proto.Unmarshal(e.Body, &c); err != nil {
			return err
		}
		if c.Vhds != nil && !has(hosts, name) {
			return fmt.Errorf("route configuration %s waits for virtual hosts, and there is none", name)
		}
	}
	return nil
}

func has(hosts map[string]*envoy.Encoded, config string) bool {
	for name := range hosts {
		if name[:strings.LastIndexByte(name, '/')] == config {
			return true
		}
	}
	return false
}
