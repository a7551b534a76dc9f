package session

import (
	"fmt"
	"net"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/xds/library"
)

// TestVariantsOfOneOwnerAreBounded: of 200 localities and 200 settings of spans that proxies of one address make up, as many count as
// one owner may have; the others are reduced, which is a problem. A variant that is given back is free for others.
func TestVariantsOfOneOwnerAreBounded(t *testing.T) {
	for name, claim := range map[string]func(n int, node *corev3.Node){
		"localities": func(n int, node *corev3.Node) { node.Locality = &corev3.Locality{Region: fmt.Sprint("r", n)} },
		"spans": func(n int, node *corev3.Node) {
			node.Metadata = &structpb.Struct{}
			text := fmt.Sprintf(`{"PROXY_CONFIG": {"tracing": {"zipkin": {"address": "z%d.example.com:9411"}}}}`, n)
			if err := node.Metadata.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDemand()
			connect := func(n int, from byte) library.ProxyID {
				node := &corev3.Node{Id: fmt.Sprintf("sidecar~10.0.0.9~web-%d.shop~shop.svc.cluster.local", n)}
				claim(n, node)
				id, err := d.Connect(t.Context(), node, &net.TCPAddr{IP: net.IPv4(10, 1, 0, from)})
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			reduced := func(id library.ProxyID) bool {
				p, ok := d.Find(id)
				if !ok {
					t.Fatal("the proxy is gone")
				}
				if p.Reduced && (p.Locality != (mesh.Locality{}) || p.Tracing != "" || p.Configured) {
					t.Errorf("a reduced proxy is %+v", p)
				}
				return p.Reduced
			}
			var ids []library.ProxyID
			for n := range 200 {
				ids = append(ids, connect(n, 1))
				if got, want := reduced(ids[n]), n >= mesh.Variants; got != want {
					t.Fatalf("proxy %d is reduced: %t, want %t", n, got, want)
				}
			}
			if again := connect(3, 1); reduced(again) {
				t.Error("a proxy that comes back is reduced")
			}
			if reduced(connect(1000, 2)) {
				t.Error("the proxy of another address is reduced")
			}
			d.turn()
			told := 0
			for _, p := range d.graph.Problems() {
				if p.Code == code.TooManyVariants && strings.Contains(p.Fix, fmt.Sprint(mesh.Variants)) {
					told++
				}
			}
			if told != 1 {
				t.Errorf("%d problems, want one for the namespace", told)
			}
			c := d.all[mesh.ProxyID(ids[0])]
			d.Disconnect(ids[0])
			d.forget(c)
			if reduced(connect(500, 1)) {
				t.Error("a variant that was given back is not free")
			}
			d.turn()
		})
	}
}
