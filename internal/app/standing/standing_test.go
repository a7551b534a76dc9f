package standing

import (
	"testing"

	"fairway/internal/door"
	"fairway/internal/mesh"
)

func doorWaiting(removal bool) door.Waiting {
	return door.Waiting{
		Ref:     mesh.ObjectRef{Kind: "VirtualService", Namespace: "shop", Name: "reviews"},
		For:     []string{"host reviews"},
		Removal: removal,
	}
}

// TestWaitingIsSaid: an object that waits at the door is a problem, which names the objects that it waits for.
func TestWaitingIsSaid(t *testing.T) {
	if p := waitingProblem(doorWaiting(false)); p.Severity != mesh.Info || p.Code != "Waiting" || p.Message == "" || p.Fix == "" {
		t.Errorf("got %+v", p)
	}
	if set, removed := waitingProblem(doorWaiting(false)), waitingProblem(doorWaiting(true)); set.Message == removed.Message {
		t.Errorf("a removal is told as a change: %q", removed.Message)
	}
}
