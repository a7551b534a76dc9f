package mesh_test

import (
	"encoding/json"
	"testing"

	"fairway/internal/mesh"
)

// References to machines are the same where registry and name are, before and after they were written down.
func TestMachineRef(t *testing.T) {
	at := func(registry, name string) mesh.MachineRef {
		return mesh.MachineKey{Registry: registry, Name: name}.Ref()
	}
	east, west := at("Kubernetes/east", "n1"), at("Kubernetes/west", "n1")
	if east == west || east != at("Kubernetes/east", "n1") || mesh.CompareMachineRef(east, west) >= 0 {
		t.Errorf("%s and %s: want two machines, in this order", east, west)
	}
	for text, m := range map[string]mesh.MachineRef{`""`: {}, `"Kubernetes/east/n1"`: east, `"Kubernetes/west/n1"`: west, `"/n1"`: at("", "n1")} {
		got, err := json.Marshal(m)
		if err != nil || string(got) != text {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
		var back mesh.MachineRef
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != m || back.Key() != m.Key() {
			t.Errorf("%s is read as %+v, %v", text, back.Key(), err)
		}
	}
	if none := (mesh.MachineKey{}).Ref(); none != (mesh.MachineRef{}) || none.String() != "" || none.Key() != (mesh.MachineKey{}) {
		t.Errorf("no machine is %q", none)
	}
}
