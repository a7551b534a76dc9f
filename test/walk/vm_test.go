package walk_test

import (
	"os"
	"path/filepath"
	"testing"

	"fairway/build/consulbin"
	"fairway/test/netns"
	"fairway/test/rig"
)

// TestRegistriesVM follows docs/start/vm.md, word for word, with a real Consul. The ports that the page names are free in a namespace.
func TestRegistriesVM(t *testing.T) {
	consul := rig.Server(t, consulbin.Obtain)
	w := walker(t)
	w.In = netns.New(t)
	w.In.Wire(t, func(l netns.Links) { l.Up("lo") })
	w.Env = append(w.Env, "PATH="+filepath.Dir(consul)+":"+os.Getenv("PATH"))
	w.Up = append(w.Up, "Consul agent running!", "it takes requests", "msg=synced", "envoy is live")
	w.Walk(t, page(t, "start/vm.md"))
}
