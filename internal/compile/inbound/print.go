package inbound

import (
	"fmt"
	"strings"
	"time"

	"fairway/internal/compile/demand"
	"fairway/internal/config"
	"fairway/internal/mesh"
)

func (k Key) String() string { return k.Namespace + " " + k.Spec }

func (i *Workload) String() string {
	ports := make([]string, len(i.Ports))
	for n, p := range i.Ports {
		ports[n] = fmt.Sprintf("%d/%v", p.Number, p.Protocol)
		if p.Service != "" {
			ports[n] += fmt.Sprintf("=%s:%d", p.Service, p.ServicePort)
		}
		if p.Endpoint != "" {
			ports[n] += "→" + p.Endpoint
		}
		if p.Bound {
			ports[n] += " bound " + p.Bind
		}
		if ports[n] += security(p.MTLS, p.Closed); p.EndsTLS() {
			ports[n] += " ends TLS"
		}
	}
	return strings.TrimSpace(
		fmt.Sprintf("%v%s%s %s [%s] %s%v%s", i.Interception, demand.Also(i.Families), security(i.MTLS, i.Closed), i.Address,
			strings.Join(ports, "; "), named(i.Sidecar), i.Policies, without(i.Unreadable)+idle(i.Idle)+i.HTTP.String()),
	)
}

// idle prints the time after which idle connections end.
func idle(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " idle " + d.String()
}

// without names files that cannot be read.
func without(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return " without " + strings.Join(files, ", ")
}

// security returns a word for a port, unless it takes plaintext only.
func security(m mesh.MTLS, closed bool) string {
	switch {
	case closed:
		return " closed"
	case m == mesh.Disabled:
		return ""
	}
	return " " + m.String()
}

func named(k config.Key) string {
	if k == (config.Key{}) {
		return ""
	}
	return k.Namespace + "/" + k.Name
}
