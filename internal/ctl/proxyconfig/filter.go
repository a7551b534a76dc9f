package proxyconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"fairway/internal/printable"
)

// filter holds the flags that select rows.
type filter struct {
	name, fqdn, subset, direction, address, typ, cluster, status string

	port uint16
}

// The values of flags.
var (
	directions = []string{"inbound", "outbound"}
	types      = []string{"HTTP", "TCP", "HTTP+TCP"}
	states     = []string{"healthy", "unhealthy"}
)

// addressed is the flag --address. istioctl selects rows with it; everywhere else here it is where the control plane is, which has a port.
type addressed struct {
	f     *filter
	plane func(string)
}

func (a addressed) String() string { return "" }
func (a addressed) Type() string   { return "string" }

// Set implements pflag.Value.
func (a addressed) Set(value string) error {
	if _, err := netip.ParseAddr(value); err == nil {
		a.f.address = value
		return nil
	}
	a.plane(value)
	return nil
}

// bind declares some of the flags. plane takes the address of a control plane.
func (f *filter) bind(flags *pflag.FlagSet, plane func(string), names ...string) {
	all := map[string]func(){
		"name": func() { flags.StringVar(&f.name, "name", "", "only resources with this text in their name") },
		"fqdn": func() { flags.StringVar(&f.fqdn, "fqdn", "", "only clusters of hosts with this text in their name") },
		"port": func() { flags.Uint16Var(&f.port, "port", 0, "only of this port") },
		"subset": func() {
			flags.StringVar(&f.subset, "subset", "", "only clusters of this subset")
		},
		"direction": func() {
			flags.StringVar(&f.direction, "direction", "", "only clusters of this direction: "+strings.Join(directions, " or "))
		},
		"address": func() {
			flags.Var(addressed{f, plane}, "address", "only of this IP address; a text with a port names the control plane, as everywhere")
		},
		"type": func() {
			flags.StringVar(&f.typ, "type", "", "only listeners of this type: "+strings.Join(types, ", "))
		},
		"cluster": func() {
			flags.StringVar(&f.cluster, "cluster", "", "only endpoints of clusters with this text in their name")
		},
		"status": func() {
			flags.StringVar(&f.status, "status", "", "only endpoints of this status: "+strings.Join(states, " or "))
		},
	}
	for _, name := range names {
		all[name]()
	}
}

// check validates the values of the flags.
func (f *filter) check() error {
	var errs []error
	for _, of := range []struct {
		flag, value string
		want        []string
	}{{"direction", f.direction, directions}, {"type", f.typ, types}, {"status", f.status, states}} {
		known := slices.ContainsFunc(of.want, func(w string) bool { return strings.EqualFold(w, of.value) })
		if of.value != "" && !known {
			errs = append(errs, fmt.Errorf("--%s %s: want %s", of.flag, printable.Text(of.value, printable.Short),
				strings.Join(of.want, " or ")))
		}
	}
	return errors.Join(errs...)
}

// hasPort reports whether a port is selected.
func (f *filter) hasPort(port string) bool { return f.port == 0 || port == strconv.Itoa(int(f.port)) }
