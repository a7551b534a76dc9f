package schemas

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCheck: a build without schemas says so, always in the same words, and names the command that builds it right.
func TestCheck(t *testing.T) {
	kinds := []string{"VirtualService", "Gateway", "Sidecar", "Telemetry"}
	have := func(names ...string) fstest.MapFS {
		files := fstest.MapFS{"data/README.md": {}}
		for _, name := range names {
			files["data/"+name+".json"] = &fstest.MapFile{}
		}
		return files
	}
	for range 20 {
		if err := check(have(kinds...), kinds); err != nil {
			t.Fatal(err)
		}
		if err := check(have(), kinds); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "`make build`") {
			t.Fatal(err)
		}
		err := check(have("Gateway", "Telemetry"), kinds)
		if !errors.Is(err, ErrMissing) || !strings.HasPrefix(err.Error(), "no schema of VirtualService, Sidecar: ") {
			t.Fatal(err)
		}
	}
}

// TestCheckOfThisBuild: all schemas that the check finds can be loaded.
func TestCheckOfThisBuild(t *testing.T) {
	if err := Check([]string{"VirtualService", "Nothing"}); !errors.Is(err, ErrMissing) ||
		!strings.HasPrefix(err.Error(), "no schema of Nothing: ") {
		t.Error(err)
	}
	if s, err := Load("VirtualService"); err != nil || s.Kind != "VirtualService" {
		t.Error(s, err)
	}
}
