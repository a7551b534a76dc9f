package eureka

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

func stateOf(o Options) *state {
	return newState("Eureka/test", o, platform.NewTranslator("Eureka/test", o.Naming, defaultHost))
}

// take reads an answer into a state.
func take(t *testing.T, s *state, text string) string {
	t.Helper()
	a := s.all()
	out, err := read(strings.NewReader(text), a.add)
	if err != nil {
		t.Fatal(err)
	}
	s.book.Replace(a.List, false, time.Now())
	return out.hash
}

// TestGolden: answers as servers give them, and the rows that are made of them.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		o            Options
	}{
		{"app", "apps", Options{}},
		{"vip", "apps", Options{Services: byVIP, Region: "r9", Naming: platform.Naming{Host: "{name}.mesh", Port: 8000}}},
		{"single", "single", Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", c.answer+".json"))
			if err != nil {
				t.Fatal(err)
			}
			s := stateOf(c.o)
			if hash := take(t, s, string(text)); hash != s.hash() {
				t.Errorf("the server counts %s, and what was read %s", hash, s.hash())
			}
			golden.File(t, filepath.Join("testdata", c.name+".golden"), printed(s.book.Flush()))
		})
	}
}

func printed(shards []source.Shard, problems map[string][]mesh.Problem) string {
	var b strings.Builder
	for _, s := range shards {
		fmt.Fprintf(&b, "%s\n", s.Key.Part)
		for _, v := range s.Rows.Services {
			fmt.Fprintf(&b, "  %s %s %v exported to %v\n", v.Key, v.Resolution, v.Ports, v.ExportTo)
		}
		for _, v := range s.Rows.Slices {
			for _, e := range v.Endpoints {
				fmt.Fprintf(&b, "    %s: %s %s labels %q at %q weight %d %s\n",
					e.ID, e.Address, e.Ports, e.Labels, e.Locality, e.Weight, e.Health)
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(problems)) {
		for _, p := range problems[place] {
			fmt.Fprintf(&b, "%s: %s\n", place, p)
		}
	}
	return b.String()
}
