package compiletest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Published returns everything that is published of a type. The test fails if two tables publish the same resource.
func (w *World) Published(typ xdstype.Type) map[mesh.ResourceKey]*envoy.Encoded {
	w.t.Helper()
	return w.gather(w.Out.Resources[typ]...)
}

func (w *World) gather(tables ...*table.Table[mesh.ResourceKey, *envoy.Encoded]) map[mesh.ResourceKey]*envoy.Encoded {
	w.t.Helper()
	all := map[mesh.ResourceKey]*envoy.Encoded{}
	w.Store.Read(func(tx *table.Tx) {
		for _, published := range tables {
			for k, e := range table.All(tx, published) {
				if all[k] != nil {
					w.t.Errorf("two tables publish %v", k)
				}
				all[k] = e
			}
		}
	})
	return all
}

// ByProxy returns each proxy's resources of a type. If several shelves have the same name, the uppermost one counts.
func (w *World) ByProxy(typ xdstype.Type) map[mesh.ProxyID]map[string]*envoy.Encoded {
	w.t.Helper()
	shelves := map[mesh.Shelf]map[string]*envoy.Encoded{}
	for k, e := range w.Published(typ) {
		if shelves[k.Shelf] == nil {
			shelves[k.Shelf] = map[string]*envoy.Encoded{}
		}
		shelves[k.Shelf][k.Name] = e
	}
	out := map[mesh.ProxyID]map[string]*envoy.Encoded{}
	w.Store.Read(func(tx *table.Tx) {
		for id, a := range table.All(tx, w.Out.Attachments) {
			out[id] = map[string]*envoy.Encoded{}
			for _, shelf := range a[typ] {
				maps.Copy(out[id], shelves[shelf])
			}
		}
	})
	return out
}

func inOrder(all map[mesh.ResourceKey]*envoy.Encoded) []mesh.ResourceKey {
	return slices.SortedFunc(maps.Keys(all), mesh.CompareResourceKey)
}

// tree returns a message's JSON.
func tree(t testing.TB, m proto.Message) (out map[string]any) {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
