package platform_test

import (
	"errors"
	"fmt"
	"testing"

	"fairway/internal/source/platform"
)

// TestReasonsByTurns: a server that fails in two ways by turns has both told all the time, and the last of them first.
func TestReasonsByTurns(t *testing.T) {
	to := &sink{}
	b := platform.Outbox{Sink: to}
	last := func(want string) {
		t.Helper()
		if is := to.got[len(to.got)-1].Stale; is != want {
			t.Errorf("%q is told, want %q", is, want)
		}
	}
	b.Stale(errors.New("refused"))
	last("refused")
	b.Stale(errors.New("broken"))
	last("broken; before that: refused")
	b.Stale(errors.New("refused"))
	last("refused; before that: broken")
	for i := range 100 {
		b.Stale(fmt.Errorf("broken %d", i))
	}
	last("broken 99; before that: broken 98; before that: broken 97")
	told := len(to.got)
	b.Stale(errors.New("broken 99"))
	if len(to.got) != told {
		t.Error("what is told already is told again")
	}
	b.Fresh()
	b.Stale(errors.New("refused"))
	last("refused")
}
