package sidecar

import (
	"fmt"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareNotes says, once an object, what of Sidecars has no effect.
func (t *Tables) declareNotes() {
	table.Derive(t.in.Sidecars, "sidecar/notes", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			spec := config.Spec[*networking.Sidecar](o)
			t.noteSockets(r, o, spec)
		})
}

// ProxysOwn reports whether what a Sidecar's listener would bind is a socket of Envoy's or its agent's: Envoy would take
// it away before it made its own.
func (t *Tables) ProxysOwn(r *table.Reader, bind string) bool {
	if mesh.ReachOf(bind) != mesh.Socket {
		return false
	}
	ports, folder := t.in.ProxyPlaces(r)
	return mesh.Guarded(bind, 0, ports, folder)
}

// noteSockets notes a Sidecar's listeners that are left out because their sockets are a proxy's own.
func (t *Tables) noteSockets(r *table.Reader, o *config.Object, spec *networking.Sidecar) {
	note := func(list string, i int, bind string) {
		if t.ProxysOwn(r, bind) {
			r.Note(mesh.Problem{
				Object:   o.Ref,
				Field:    fmt.Sprintf("spec.%s[%d].bind", list, i),
				Code:     code.ProxysOwn,
				Severity: mesh.Error,
				Message:  strconv.Quote(bind) + " is a proxy's own, of Envoy or its agent: the listener is left out",
				Fix:      "bind another socket",
			})
		}
	}
	for i, l := range spec.GetEgress() {
		note("egress", i, l.GetBind())
	}
	for i, l := range spec.GetIngress() {
		note("ingress", i, l.GetBind())
	}
}
