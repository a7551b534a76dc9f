package wire

import "testing"

func TestNodesAreToldApart(t *testing.T) {
	id := appendField(nil, nodeID, "a")
	more := appendField(append([]byte{}, id...), 10, "an extension")
	other := appendField(nil, nodeID, "b")
	if HashNode(id) != HashNode(more) {
		t.Error("extensions tell nodes apart")
	}
	if HashNode(id) == HashNode(other) {
		t.Error("ids do not")
	}
}
