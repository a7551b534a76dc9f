package file

import (
	"strings"
	"testing"
)

// TestSeveralObjectsInOneDocument: JSON objects one behind the other are one object each. Other text behind an object is
// a problem, and the objects in force stay.
func TestSeveralObjectsInOneDocument(t *testing.T) {
	const a = `{"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": {"name": "a"}, "spec": {"address": "1.1.1.1"}}` + "\n"
	b := newBed(t, "w.json", a)
	b.start()
	b.place("w.json", a+strings.Replace(a, `"a"`, `"b"`, 1))
	b.next()
	b.inForce("a w.json:1", "b w.json:2")
	b.place("w.json", strings.Replace(a, "1.1.1.1", "2.2.2.2", 1)+"}\n")
	if batch := b.next(); len(batch.Set) != 0 || len(batch.Delete) != 0 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
	b.inForce("a w.json:1", "b w.json:2")
	if p := b.problem("w.json"); p.Line != 2 || !strings.Contains(p.Message, "text after the end") ||
		!strings.Contains(p.Message, "in force") {
		t.Errorf("%+v", p)
	}
}

// TestSharedAnchorOfAList: an item of a list changes with the anchor that it borrows, though its own text does not.
func TestSharedAnchorOfAList(t *testing.T) {
	list := func(address string) string {
		return "kind: List\nx: &a {address: " + address + "}\nitems:\n" +
			"- {apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: a}, spec: *a}\n" +
			"- apiVersion: networking.istio.io/v1\n  kind: WorkloadEntry\n  metadata: {name: b}\n  spec: *a\n"
	}
	b := newBed(t, "w.yaml", list("1.1.1.1"))
	b.start()
	b.inForce("a w.yaml:4", "b w.yaml:5")
	b.place("w.yaml", list("2.2.2.2"))
	if batch := b.next(); len(batch.Set) != 2 {
		t.Errorf("set %v, want both", batch.Set)
	}
}
