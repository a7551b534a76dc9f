package envoy

import (
	"fmt"
	"testing"

	"fairway/test/envoy/live"
)

// TestWalkthroughs runs testdata/walkthroughs: what Istio's own documentation has its readers do, each in a mesh of its own, with
// programs of ours in the place of bookinfo, httpbin and sleep. docs/walkthroughs.md is the list.
func TestWalkthroughs(t *testing.T) {
	t.Parallel()
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw %t", sotw), func(t *testing.T) {
			t.Parallel()
			scripts(t, live.Start(t, live.Options{}), sotw, "testdata/walkthroughs")
		})
	}
}
