package compiletest

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// PatchedText lists the resources that patches add. For a resource below it lists the lines of YAML that patches remove ("-") and add
// ("+").
func (w *World) PatchedText() string {
	w.t.Helper()
	var out strings.Builder
	for _, typ := range []struct {
		of    xdstype.Type
		empty func() proto.Message
	}{
		{xdstype.Clusters, func() proto.Message { return &clusterv3.Cluster{} }},
		{xdstype.Listeners, func() proto.Message { return &listenerv3.Listener{} }},
		{xdstype.Routes, func() proto.Message { return &routev3.RouteConfiguration{} }},
		{xdstype.VirtualHosts, func() proto.Message { return &routev3.VirtualHost{} }},
		{xdstype.Extensions, func() proto.Message { return &corev3.TypedExtensionConfig{} }},
	} {
		all := w.Published(typ.of)
		lines := func(e *envoy.Encoded) []string {
			if e == nil {
				return nil
			}
			if e.Err != nil {
				return []string{e.String()}
			}
			m := typ.empty()
			decode(w.t, e, m)
			text, err := yaml.Marshal(tree(w.t, m))
			if err != nil {
				w.t.Fatal(err)
			}
			if len(e.Needs) > 0 {
				text = append(text, "needs "+strings.Join(e.Needs, ", ")+"\n"...)
			}
			return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		}
		for _, k := range inOrder(all) {
			part, by, patched := cutPatched(k.Shelf.Part)
			if !patched {
				continue
			}
			below := lines(all[mesh.ResourceKey{Shelf: mesh.Shelf{Layer: k.Shelf.Layer, Part: part}, Name: k.Name}])
			now := lines(all[k])
			fmt.Fprintf(&out, "== %s %s %s by %s\n", typ.of, k.Shelf.Layer, k.Name, by)
			for _, l := range below {
				if !slices.Contains(now, l) {
					out.WriteString("-" + l + "\n")
				}
			}
			for _, l := range now {
				if !slices.Contains(below, l) {
					out.WriteString("+" + l + "\n")
				}
			}
		}
	}
	return out.String()
}

// cutPatched parts the name of a shelf that patches made into the one below it and the patches.
func cutPatched(part string) (below, by string, patched bool) {
	if by, ok := strings.CutPrefix(part, "added by "); ok {
		return "nothing", by, true
	}
	for _, kind := range []string{"sidecar ", "router ", "telemetry ", "extended ", "proxyConfig "} {
		if below, by, ok := strings.Cut(part, "/"+kind); ok {
			return below, kind + by, true
		}
	}
	return "", "", false
}
