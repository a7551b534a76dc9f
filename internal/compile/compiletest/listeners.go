package compiletest

import (
	"fmt"
	"strings"

	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/xdstype"
)

// ListenerText describes the listeners that are published, with the clusters that each needs.
func (w *World) ListenerText() string {
	w.t.Helper()
	var out strings.Builder
	all := w.Published(xdstype.Listeners)
	for _, k := range inOrder(all) {
		l := listenertest.Decode(w.t, k.Name, all[k])
		if l.GetName() != k.Name {
			w.t.Errorf("%v is named %q", k, l.GetName())
		}
		shelf, _, _ := strings.Cut(k.Shelf.String(), "inbound/")
		fmt.Fprintf(&out, "%s | %s", shelf, listenertest.Describe(l))
		if len(all[k].Needs) > 0 {
			fmt.Fprintf(&out, "  needs %s\n", strings.Join(all[k].Needs, ", "))
		}
	}
	return out.String()
}
