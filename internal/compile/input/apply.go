package input

import (
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// The kinds that name hosts, and those that serve them.
func names(k config.Kind) bool {
	return k == "ServiceEntry" || k == "VirtualService" || k == "DestinationRule"
}
func serves(k config.Kind) bool { return k == "ServiceEntry" || k == "WorkloadEntry" }

// Apply stages a source's batch: each object into the input of its kind. No turn sees half of it. Any goroutine may call it.
func (t *Tables) Apply(b source.Batch) {
	t.store.Together(func() {
		for _, k := range b.Delete {
			t.remove(k)
		}
		for _, o := range b.Set {
			t.set(o)
		}
		t.applyRegistry(b)
		for _, name := range slices.Sorted(maps.Keys(b.Problems)) {
			t.setProblems(Place{b.Source, name}, b.Problems[name])
		}
	})
}

func (t *Tables) set(o *config.Object) {
	t.Written.Set(o.Key, o.Written())
	o = o.Unplaced()
	t.Of(o.Kind).Set(o.Key, o)
	key := ObjectSource(o.Key)
	if names(o.Kind) {
		t.Naming.Set(key, Source{Object: o})
	}
	if serves(o.Kind) {
		t.Serving.Set(key, Source{Object: o})
	}
}

func (t *Tables) remove(k config.Key) {
	t.Written.Delete(k)
	t.Of(k.Kind).Delete(k)
	if names(k.Kind) {
		t.Naming.Delete(ObjectSource(k))
	}
	if serves(k.Kind) {
		t.Serving.Delete(ObjectSource(k))
	}
}

// Of is the input of a kind.
func (t *Tables) Of(k config.Kind) *Objects {
	if in := t.byKind[k]; in != nil {
		return in
	}
	return t.Others
}

func (t *Tables) applyRegistry(b source.Batch) {
	for _, k := range b.DeleteServices {
		t.Naming.Delete(serviceSource(k))
	}
	for _, s := range b.Services {
		t.Naming.Set(serviceSource(s.Key), Source{Service: s})
	}
	for _, k := range b.DeleteEndpoints {
		t.Serving.Delete(endpointSource(k))
	}
	for k, e := range b.Endpoints {
		t.Serving.Set(endpointSource(k), Source{Endpoint: &Endpoint{Key: k, Endpoint: e}})
	}
}

func (t *Tables) setProblems(at Place, problems []mesh.Problem) {
	if len(problems) == 0 {
		t.FileProblems.Delete(at)
		return
	}
	t.FileProblems.Set(at, problems)
}

// ObjectSource is the key under which an object stands in Naming and Serving.
func ObjectSource(k config.Key) SourceKey {
	return SourceKey{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}

func serviceSource(k mesh.ServiceKey) SourceKey {
	return SourceKey{Registry: k.Registry, Namespace: k.Namespace, Name: k.Object, Host: k.Host}
}

func endpointSource(k mesh.EndpointKey) SourceKey {
	s := serviceSource(k.Service)
	s.ID = k.ID
	return s
}
